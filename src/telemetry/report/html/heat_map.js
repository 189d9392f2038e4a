"use strict";
/* How the values of a series spread over time: the darker, the more values.

     telemetry.heatMap(host, {title, unit, edges: [v], start: [s], end: [s], columns: [[first row, n, n, …]], marks?, domain}, crosshair) */
Object.assign(telemetry, (() => {
  const { svg, element, quantity, seconds, numberOf, linear, logarithmic, timeAxis, ground, responsive, within, follow, hair, head, named, drawMarks } = telemetry;
  const FAINTEST = 0.07;

  function heatMap(host, data, cross) {
    let again = () => {};
    cross.draws.add(() => again());
    const columns = data.columns.map(([first, ...counts]) => ({ first: first ?? 0, counts, total: counts.reduce((a, b) => a + b, 0) }));
    const top = columns.reduce((most, { counts }) => counts.reduce((a, b) => Math.max(a, b), most), 1);
    const smallest = data.edges.find((at) => at > 0) ?? 1, last = data.edges[data.edges.length - 1];
    const log = data.edges[0] >= 0 && last / Math.max(data.edges[0], smallest) > 8;
    const edges = log ? data.edges.map((at) => Math.max(at, smallest / 2)) : data.edges;
    const middle = data.start.map((start, at) => (start + data.end[at]) / 2);
    const moment = head(host, data, () => [["start_s", "end_s", named({ name: "from" }, data.unit), named({ name: "to" }, data.unit), "values"],
      ...columns.flatMap(({ first, counts }, at) => (within(cross.range, data.start[at], data.end[at])
        ? counts.map((number, row) => [data.start[at], data.end[at], data.edges[first + row], data.edges[first + row + 1], number]) : []))]);
    const legend = element("div", { class: "legend" });
    let move = () => {}, area;
    cross.charts.add((at) => {
      move(at === null ? null : area.across(at));
      const place = data.end.findIndex((end, index) => at !== null && at < end && at >= data.start[index]);
      moment.textContent = place < 0 ? data.whole ?? "" : `${seconds(data.start[place])} – ${seconds(data.end[place])}`;
      legend.textContent = place < 0 ? `most in a cell: ${numberOf(top, "value", "values")}` : described(columns[place]);
    });
    function described({ first, counts, total }) {
      if (!total) return "no values";
      const row = counts.indexOf(Math.max(...counts)) + first;
      return `${numberOf(total, "value", "values")}, most from ${quantity(data.edges[row], data.unit)} to ${quantity(data.edges[row + 1], data.unit)}`;
    }

    again = responsive(host, (width) => {
      const y = (log ? logarithmic : linear)(edges[0], last, data.unit);
      area = ground(width, 240, timeAxis(...(cross.range ?? data.domain), width < 480 ? 4 : 12), y, data.title, { left: 60, top: 10, bottom: 26, cut: Boolean(cross.range) });
      columns.forEach(({ first, counts }, at) => counts.forEach((number, row) => {
        if (!number || !within(cross.range, data.start[at], data.end[at])) return;
        const x = area.across(data.start[at]), up = area.up(edges[first + row + 1]);
        area.inside.append(svg("rect", {
          class: "heat-cell", x: x.toFixed(1), y: up.toFixed(1), width: (area.across(data.end[at]) - x + 0.3).toFixed(1),
          height: (area.up(edges[first + row]) - up + 0.3).toFixed(1),
          "fill-opacity": Math.max(Math.sqrt(number / top), FAINTEST).toFixed(2),
        }));
      }));
      drawMarks(area, data.marks ?? [], false);
      follow(area, middle, cross, data.title);
      move = hair(area);
      return area.plot;
    });
    legend.textContent = `most in a cell: ${numberOf(top, "value", "values")}`;
    host.append(legend);
  }
  return { heatMap };
})());
