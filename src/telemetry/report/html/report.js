"use strict";
/* The pictures that are there without a click: over time, steps, the main distributions, counters and gauges. */
(async () => {
  const { element, read, crosshair, overTime, heatMap, grid } = telemetry;
  const place = (name) => document.getElementById(name);
  const series = await read("series-data"), shapes = series && telemetry.shapes(series);

  /** Values of x, which several lines share, from differences. */
  const summed = (differences) => {
    let sum = 0;
    return differences.map((difference) => (sum += difference));
  };

  function timeCharts(host, data) {
    const cross = crosshair();
    const odd = data.charts.filter((chart) => !chart.columns).length % 2;
    data.charts.forEach((chart, at) => {
      const [start, end] = data.times[chart.times];
      const box = host.appendChild(element("div", { class: chart.columns || (odd && !at) ? "chart wide" : "chart" }));
      const common = { ...chart, start, end, marks: data.marks, domain: data.domain, names: at < 1 };
      (chart.columns ? heatMap : overTime)(box, common, cross);
    });
  }

  /** The main series, one below the other; a list to choose others from. */
  function distributions(host, chosen) {
    for (const { title, lines, help } of chosen) {
      draw(host.appendChild(element("div", { class: "pair" })), title, lines, help);
    }
    const rest = series.series.filter((one) => one.values[1]);
    if (rest.length <= chosen.length) return;
    const box = element("div", { class: "pair" });
    const select = element("select", { "aria-label": "Another series" }, element("option", { value: "" }, "Another series …"),
      ...rest.map((one) => element("option", { value: String(series.series.indexOf(one)) }, one.name)));
    select.addEventListener("change", () => {
      box.replaceChildren();
      if (select.value !== "") draw(box, series.series[Number(select.value)].name, [["values", Number(select.value)]]);
    });
    host.append(element("div", { class: "tools" }, select), box);
  }

  function draw(box, title, lines, help) {
    const drawn = lines.map(([name, index]) => [name, series.series[index]]), [, first] = drawn[0];
    const part = (text, fill) => {
      const side = box.appendChild(element("div", { class: "chart" }, element("h3", {}, element("span", { class: "name" }, title), text, telemetry.help(help))));
      fill(side);
    };
    const named = drawn.length > 1 ? `: ${drawn[0][0]}` : "";
    part(`${named}, distribution`, (side) => shapes.drawDistribution(side, first));
    const shaded = drawn.length === 1 && first.bounds.some((bound) => bound && !bound[4]) ? `, shaded: ${series.confidence} bounds` : "";
    part(`, percentiles${shaded}`, (side) =>
      shapes.drawPercentiles(side, drawn.map(([name, one]) => shapes.percentileLine(one, name)), first.unit));
  }

  if (place("series-table")) telemetry.seriesTable(place("series-table"), series, shapes);
  const pictures = await read("pictures-data");
  if (pictures) timeCharts(place("time-charts"), pictures);
  for (const host of document.querySelectorAll(".step-grid")) {
    const data = await read(host.dataset.of), xs = data.xs.map(summed);
    grid(host, { ...data, axis: "step", smoothing: true, what: "curves", items: data.items.map((item) => ({ ...item, x: xs[item.x] })) });
  }
  const chosen = await read("distribution-data");
  if (chosen) distributions(place("distribution-charts"), chosen);
  for (const name of ["counters", "gauges"]) {
    const data = await read(`${name}-data`);
    if (data) grid(place(`${name}-grid`), { ...data, axis: "time", items: data.items.map((item) => ({ ...item, x: data.x })) });
  }
  document.documentElement.dataset.drawn = "true"; // for those who wait for it before they print
})();
