"use strict";
/* The shape of a series: its percentile curve and its distribution. `telemetry.shapes(data)` has what draws them. */
telemetry.shapes = (data) => {
  const FIRST = 3; // percentiles begin after name, count and mean
  const NAMED = ["50", "90", "99"]; // percentiles with a line in a distribution

  /** The percentile curve as a line for `telemetry.curves`; null without values. */
  function percentileLine(one, name = "values") {
    const grid = data.keys.map((key, index) => [Number(key) / 100, one.values[FIRST + index]])
      .filter(([fraction, value]) => fraction > 0 && fraction < 1 && value !== null);
    const [least, most] = [one.min, one.values[FIRST + data.keys.length]];
    // Without a percentile below the median, a line from the minimum would look like data.
    const below = grid.length && grid[0][0] < 0.5 ? [[0, least]] : [];
    const points = least === null || most === null ? grid : [...below, ...grid, [1, most]];
    const bounds = data.keys.flatMap((key, index) => {
      const own = one.bounds[index], fraction = Number(key) / 100;
      return own && !own[4] && fraction < 1 && own[0] !== null && own[1] !== null ? [[fraction, own[0], own[1]]] : [];
    });
    return points.length ? { name, points, bounds, count: one.values[1] } : null;
  }

  function drawDistribution(host, one) {
    if (!one.fine) return telemetry.bars(host, { title: `${one.name} distribution`, unit: one.unit, cell_unit: one.cell_unit, cells: one.histogram });
    const marks = data.keys.flatMap((key, index) =>
      NAMED.includes(key) && one.values[FIRST + index] !== null ? [[`p${key}`, one.values[FIRST + index]]] : []);
    return telemetry.distribution(host, { title: `${one.name} distribution`, unit: one.unit, ...one.fine, marks });
  }

  function drawPercentiles(host, lines, unit, name) {
    telemetry.curves(host, { title: `${name} percentiles`, unit, lines: lines.filter((line) => line !== null) });
  }
  return { percentileLine, drawDistribution, drawPercentiles };
};
