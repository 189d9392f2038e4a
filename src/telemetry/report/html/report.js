"use strict";
/* The pictures that are there without a click: over time, steps, the main distributions, counters and gauges. */
(async () => {
  const { element, read, seconds, crosshair, address, openAddress, rangeBar, overTime, heatMap, grid } = telemetry;
  const place = (name) => document.getElementById(name);
  const series = await read("series-data"), shapes = series && telemetry.shapes(series);

  /** Values of x, which several lines share, from differences. */
  const summed = (differences) => {
    let sum = 0;
    return differences.map((difference) => (sum += difference));
  };

  /** The first chart, then the others in a part of their own. */
  function timeCharts(host, more, data, cross) {
    const [first, ...others] = data.charts, wide = (chart) => chart === first || chart.columns;
    const odd = others.filter((chart) => !wide(chart)).length % 2;
    const alone = odd ? others.find((chart) => !wide(chart)) : null;
    data.charts.forEach((chart, at) => {
      const [start, end] = data.times[chart.times];
      const lines = chart.lines?.map((line) => {
        const [own, until] = data.times[line.times ?? chart.times];
        return { ...line, start: own, end: until };
      });
      const box = (at ? more : host).appendChild(element("div", { class: wide(chart) || chart === alone ? "chart wide" : "chart" }));
      const common = { ...chart, lines, start, end, marks: data.marks, domain: data.domain, names: at < 1 };
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
      shapes.drawPercentiles(side, drawn.map(([name, one]) => shapes.percentileLine(one, name)), first.unit, title));
  }

  const time = crosshair(), run = place("run")?.dataset.run;
  const second = (at, round) => `${(round(at * 10) / 10).toFixed(1)}s`;
  rangeBar(time, ([from, to]) => `${seconds(from)} – ${seconds(to)} of the run`,
    `Figures are of the whole run${run ? "; those of this time range:" : "."}`, ([from, to]) => (run ? `telemetry report ${run} --from ${second(from, Math.floor)} --to ${second(to, Math.ceil)}` : ""));
  address(time, "time");
  if (place("series-table")) telemetry.seriesTable(place("series-table"), series, shapes, time);
  const pictures = await read("pictures-data");
  if (pictures) timeCharts(place("time-charts"), place("more-charts"), pictures, time);
  const slots = await read("slots-data");
  if (slots) telemetry.slots(place("slots-chart"), slots, time);
  for (const host of document.querySelectorAll(".step-grid")) {
    const data = await read(host.dataset.of), xs = data.xs.map(summed);
    grid(host, { ...data, axis: "step", smoothing: true, what: "curves", items: data.items.map((item) => ({ ...item, x: xs[item.x] })) });
  }
  const chosen = await read("distribution-data");
  if (chosen) distributions(place("distribution-charts"), chosen);
  for (const name of ["counters", "gauges", "machine"]) {
    const data = await read(`${name}-data`);
    if (data) grid(place(`${name}-grid`), { ...data, axis: "time", items: data.items.map((item) => ({ ...item, x: data.x })) }, time);
  }
  openAddress();
  document.documentElement.dataset.drawn = "true"; // for those who wait for it before they print
})();
