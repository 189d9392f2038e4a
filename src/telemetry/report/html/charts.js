"use strict";
/* Charts as SVG, drawn to the width there is:

     telemetry.curves(host, {unit, lines: [{name, points: [[fraction, value], …], count?, bounds?: [[fraction, low, high]]}]})
     telemetry.overTime(host, {unit, start: [s], end: [s], count: [n], lines: [{name, values: [v | null]}]})
     telemetry.bars(host, {unit, cell_unit, cells: [[cell, count]]})

   Each appends to `host`. A figure of class `curves` with a block of JSON in it is drawn when the page is there. */
Object.assign(telemetry, (() => {
  const { element, svg, count, numberOf, durationNs, quantity, nature } = telemetry;
  const COLORS = 8, LEFT = 68, RIGHT = 14, TOP = 12, BOTTOM = 30;
  const NARROWEST = 12; // cells of a distribution, so that few bars are not walls
  const LOG_FROM = 20; // largest over smallest value from which a logarithmic axis shows more
  const NINES = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999, 0.99999999];
  const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

  const whole = (text) => text.replace(/ 0 (s|min)$/, "");
  const short = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
  const label = (value, unit) => (value === 0 ? "0" : short(quantity(value, unit)));
  /** As many digits as tell the rest up to 1: 50 %, 98.3 %, 99.95 %. */
  const percent = (fraction) => {
    const digits = Math.max(0, Math.ceil(-Math.log10((1 - fraction) * 100) - 1e-9)) + 1;
    return `${short((fraction * 100).toFixed(Math.min(digits, 15)))} %`;
  };

  /** Round steps: powers of two for sizes, 1-2-5 for all else. */
  function roundStep(least, kind) {
    if (kind === "bytes") return 2 ** Math.ceil(Math.log2(least));
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999) * power;
  }

  function linear(low, high, unit) {
    const [kind, factor] = nature(unit);
    const step = roundStep((Math.max(high - low, Number.MIN_VALUE) * factor) / 5, kind) / factor;
    const first = Math.ceil(low / step), ticks = [];
    for (let at = first; at * step <= high * (1 + 1e-9) && ticks.length < 12; at++) ticks.push(at * step);
    return { place: (value) => (value - low) / (high - low || 1), ticks };
  }

  function logarithmic(low, high, unit) {
    const [kind, factor] = nature(unit);
    const place = (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low || 2);
    const decades = Math.log10(high / low), ticks = [];
    if (kind === "bytes") {
      const stride = Math.max(1, Math.ceil((decades * Math.log2(10)) / 8));
      for (let power = Math.ceil(Math.log2(low * factor)); 2 ** power <= high * factor; power += stride)
        ticks.push(2 ** power / factor);
    } else {
      const factors = decades < 2.2 ? [1, 2, 5] : [1], stride = Math.max(1, Math.ceil(decades / 8));
      for (let power = Math.floor(Math.log10(low * factor)); 10 ** power <= high * factor; power += stride)
        for (const step of factors) ticks.push((step * 10 ** power) / factor);
    }
    return { place, ticks: ticks.filter((at) => at >= low * 0.999 && at <= high * 1.001) };
  }

  /** A value axis over all of `values`, from 0 unless logarithmic. */
  function valueAxis(values, unit, log) {
    const positive = values.filter((value) => value > 0);
    const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
    const low = values.reduce((least, value) => Math.min(least, value), Infinity);
    if (log && positive.length) {
      const least = positive.reduce((a, b) => Math.min(a, b));
      return logarithmic(least / 1.15, Math.max(high, least) * 1.15, unit);
    }
    return linear(Math.min(low, 0), high > 0 ? high * 1.05 : 1, unit);
  }

  const wantsLog = (values) => {
    const positive = values.filter((value) => value > 0);
    return positive.length > 1 && Math.max(...range(positive)) / Math.min(...range(positive)) > LOG_FROM;
  };
  const range = (values) => [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];

  function timeAxis(low, high) {
    const step = STEPS_S.find((seconds) => (high - low) / seconds <= 7) ?? roundStep((high - low) / 7, "plain");
    const ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 && ticks.length < 16; at += step) ticks.push(at);
    return { place: (at) => (at - low) / (high - low || 1), ticks };
  }

  /** An empty plot with its axes: [svg, x to pixels, y to pixels, pixels to place]. */
  function ground(width, height, x, y, name) {
    const right = width - RIGHT, bottom = height - BOTTOM;
    const across = (value) => LEFT + x.place(value) * (right - LEFT);
    const up = (value) => bottom - y.place(value) * (bottom - TOP);
    const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name });
    for (const at of y.ticks) {
      plot.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: up(at), y2: up(at) }));
      plot.append(svg("text", { class: "tick", x: LEFT - 8, y: up(at) + 4, "text-anchor": "end" }, y.text(at)));
    }
    let free = -Infinity;
    for (const at of x.ticks) {
      plot.append(svg("line", { class: "grid", x1: across(at), x2: across(at), y1: TOP, y2: bottom }));
      const text = x.text(at), half = text.length * 3.4;
      const middle = Math.min(Math.max(across(at), LEFT), width - half - 2);
      if (middle - half < free + 6) continue;
      free = middle + half;
      plot.append(svg("text", { class: "tick", x: middle, y: bottom + 18, "text-anchor": "middle" }, text));
    }
    plot.append(svg("line", { class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
    return { plot, across, up, left: LEFT, right, bottom };
  }

  const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

  /** Draws now, and anew whenever the width changes. `draw(width)` returns a plot; returns how to draw anew. */
  function responsive(host, draw) {
    const place = host.appendChild(element("div", { class: "plot" }));
    let drawn = 0;
    const again = () => {
      drawn = Math.max(Math.round(place.clientWidth), 240);
      place.replaceChildren(draw(drawn));
    };
    new ResizeObserver(() => Math.abs(place.clientWidth - drawn) > 1 && place.clientWidth && again()).observe(place);
    again();
    return again;
  }

  /** Legend whose entries turn lines off, and the switch of the value axis. */
  function controls(lines, state, again) {
    const legend = element("div", { class: "legend" });
    if (lines.length > 1) lines.forEach((line, index) => {
      const toggle = element("button", {
        type: "button", class: `key c${index % COLORS}`, "aria-pressed": "true", title: "Show or hide this line",
        on: { click: () => {
          state.hidden.has(index) ? state.hidden.delete(index) : state.hidden.add(index);
          toggle.setAttribute("aria-pressed", String(!state.hidden.has(index)));
          again();
        } },
      }, line.name);
      legend.append(toggle);
    });
    const scale = element("button", {
      type: "button", class: "scale", "aria-pressed": String(state.log), title: "Logarithmic values",
      on: { click: () => {
        state.log = !state.log;
        scale.setAttribute("aria-pressed", String(state.log));
        again();
      } },
    }, "log scale");
    legend.append(scale);
    return legend;
  }

  /** Calls `found(x in the plot)` while the pointer is over it, which returns where the hair goes; `left()` after. */
  function follow(area, found, left) {
    const hair = area.plot.appendChild(svg("line", { class: "hair", y1: TOP, y2: area.bottom, visibility: "hidden" }));
    area.plot.addEventListener("pointermove", (event) => {
      const box = area.plot.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * area.plot.viewBox.baseVal.width;
      const x = found(Math.min(Math.max(at, area.left), area.right));
      if (x === undefined) return;
      hair.setAttribute("x1", x);
      hair.setAttribute("x2", x);
      hair.setAttribute("visibility", "visible");
    });
    area.plot.addEventListener("pointerleave", () => {
      hair.setAttribute("visibility", "hidden");
      left();
    });
  }

  const reading = (lines, value, unit, extra = () => "") =>
    lines.flatMap((line) => [
      element("span", { class: `key c${line.index % COLORS}` }, `${line.name} `,
        element("b", {}, quantity(value(line), unit)), extra(line)),
      " ",
    ]);

  function curves(host, data) {
    const lines = data.lines.map((line, index) => ({ ...line, index }));
    if (!lines.length) {
      host.append(element("p", { class: "nothing" }, "No values."));
      return;
    }
    // The last value that is not the maximum ends the axis; the maximum itself is 1 in `count`, or a bit beyond.
    const reach = (line) => Math.max(...line.points.filter(([fraction]) => fraction < 1).map(([f]) => 1 / (1 - f)), 1);
    for (const line of lines) line.end = Math.log10(Math.max(line.count ?? reach(line) * 2, 1.25));
    const place = (fraction, end) => Math.min(fraction < 1 ? -Math.log10(1 - fraction) : end, end);
    const all = lines.flatMap((line) => line.points.map(([, value]) => value));
    const state = { hidden: new Set(), log: wantsLog(all) };
    const hint = "Move over the curves to read them.";
    const readout = element("div", { class: "readout" }, hint);

    const draw = (width) => {
      const shown = lines.filter((line) => !state.hidden.has(line.index));
      const end = shown.reduce((most, line) => Math.max(most, line.end), 0.3);
      const values = (shown.length ? shown : lines).flatMap((line) => line.points.map(([, value]) => value));
      const x = { place: (fraction) => place(fraction, end) / end, ticks: NINES.filter((f) => place(f, Infinity) <= end),
                  text: percent };
      const y = { ...valueAxis(values, data.unit, state.log), text: (value) => label(value, data.unit) };
      const area = ground(width, 300, x, y, "Percentile curves");
      for (const line of shown) {
        const spot = ([fraction, value]) =>
          [area.left + (place(fraction, line.end) / end) * (area.right - area.left), area.up(value)];
        if (line.bounds?.length) {
          const edge = [...line.bounds.map(([f, low]) => [f, low]), ...line.bounds.map(([f, , high]) => [f, high]).reverse()];
          area.plot.append(svg("path", { class: `band c${line.index % COLORS}`, d: path(edge.map(spot)) + "Z" }));
        }
        area.plot.append(svg("path", { class: `line c${line.index % COLORS}`, d: path(line.points.map(spot)) }));
        if (line.points.length < 30)
          for (const point of line.points.map(spot))
            area.plot.append(svg("circle", { class: `dot c${line.index % COLORS}`, cx: point[0], cy: point[1], r: 3 }));
      }
      follow(area, (at) => {
        const wanted = ((at - area.left) / (area.right - area.left)) * end;
        let best, distance = Infinity;
        for (const line of shown)
          for (const [fraction] of line.points) {
            const away = Math.abs(place(fraction, line.end) - wanted);
            if (away < distance) [best, distance] = [[fraction, line], away];
          }
        if (!best) return undefined;
        const [fraction, nearest] = best;
        const value = (line) => (line.points.find(([f]) => f >= fraction) ?? [])[1];
        const within = (line) => {
          const bound = line.bounds?.find(([f]) => f === fraction);
          return bound ? ` (${quantity(bound[1], data.unit)} – ${quantity(bound[2], data.unit)})` : "";
        };
        const title = { 0: "min", 1: "max" }[fraction] ?? percent(fraction);
        readout.replaceChildren(element("strong", {}, title), " \u2002", ...reading(shown, value, data.unit, within));
        return area.left + (place(fraction, nearest.end) / end) * (area.right - area.left);
      }, () => readout.replaceChildren(hint));
      return area.plot;
    };
    const again = responsive(host, draw);
    host.append(readout);
    readout.before(controls(lines, state, again));
  }

  function overTime(host, data) {
    const lines = data.lines.map((line, index) => ({ ...line, index }));
    const known = (shown) => shown.flatMap((line) => line.values.filter((value) => value !== null));
    if (!known(lines).length) {
      host.append(element("p", { class: "nothing" }, "No values in any step."));
      return;
    }
    const state = { hidden: new Set(), log: wantsLog(known(lines)) };
    const hint = "Move over the lines to read them.";
    const readout = element("div", { class: "readout" }, hint);
    const middle = data.start.map((start, at) => (start + data.end[at]) / 2);

    const draw = (width) => {
      const shown = lines.filter((line) => !state.hidden.has(line.index));
      const values = known(shown).length ? known(shown) : known(lines);
      const x = { ...timeAxis(data.start[0], data.end[data.end.length - 1]), text: (s) => (s ? whole(short(durationNs(s * 1e9))) : "0 s") };
      const y = { ...valueAxis(values, data.unit, state.log), text: (value) => label(value, data.unit) };
      const area = ground(width, 240, x, y, "Over time");
      for (const line of shown) {
        let part = [];
        const flush = () => {
          if (part.length > 1) area.plot.append(svg("path", { class: `line c${line.index % COLORS}`, d: path(part) }));
          if (part.length === 1)
            area.plot.append(svg("circle", { class: `dot c${line.index % COLORS}`, cx: part[0][0], cy: part[0][1], r: 2.5 }));
          part = [];
        };
        line.values.forEach((value, at) => {
          if (value === null) flush();
          else part.push([area.across(middle[at]), area.up(value)]);
        });
        flush();
      }
      follow(area, (at) => {
        let best = 0;
        middle.forEach((time, index) => {
          if (Math.abs(area.across(time) - at) < Math.abs(area.across(middle[best]) - at)) best = index;
        });
        const span = `${durationNs(data.start[best] * 1e9)} – ${durationNs(data.end[best] * 1e9)}`;
        readout.replaceChildren(element("strong", {}, span), ` ${numberOf(data.count[best], "value", "values")} `,
          ...reading(shown, (line) => line.values[best], data.unit));
        return area.across(middle[best]);
      }, () => readout.replaceChildren(hint));
      return area.plot;
    };
    const again = responsive(host, draw);
    host.append(readout);
    readout.before(controls(lines, state, again));
  }

  /** Lower edge of a display cell in ticks, as `telemetry.wire.cells.edge`. */
  const edge = (index) => (index < 4 ? index : (4 + (index % 4)) * 2 ** (Math.floor(index / 4) - 1));

  /** Cells are not equally wide on a logarithmic axis: heights are values to a quarter of a doubling, so that the
      area of a bar tells how many there are. */
  function bars(host, data) {
    if (!data.cells.length) {
      host.append(element("p", { class: "nothing" }, "No distribution."));
      return;
    }
    let first = data.cells[0][0], last = data.cells[data.cells.length - 1][0] + 1;
    while (last - first < NARROWEST) [first, last] = [Math.max(first - 1, 0), last + 1];
    const from = (cell) => Math.max(edge(cell), 0.5) * data.cell_unit; // 0 has no place on this axis
    const height = ([cell, number]) => (number * Math.LN2) / 4 / Math.log(from(cell + 1) / from(cell));
    const most = data.cells.reduce((highest, cell) => Math.max(highest, height(cell)), 0);
    const hint = "Move over the bars to read them.";
    const readout = element("div", { class: "readout" }, hint);
    const draw = (width) => {
      const x = { ...logarithmic(from(first), from(last), data.unit), text: (value) => label(value, data.unit) };
      const y = { ...linear(0, most * 1.05, ""), text: (number) => (number < 1e6 ? count(number) : short(telemetry.scaled(number))) };
      const area = ground(width, 300, x, y, "Distribution");
      for (const cell of data.cells) {
        const left = area.across(from(cell[0])), top = Math.min(area.up(height(cell)), area.bottom - 1);
        const wide = Math.max(area.across(from(cell[0] + 1)) - left - 1, 0.5);
        area.plot.append(svg("rect", { class: "bar c0", x: left, y: top, width: wide, height: area.bottom - top }));
      }
      const counts = new Map(data.cells);
      follow(area, (at) => {
        let cell = first;
        while (cell < last - 1 && area.across(from(cell + 1)) < at) cell++;
        const ends = `${quantity(edge(cell) * data.cell_unit, data.unit)} – ${quantity(from(cell + 1), data.unit)}`;
        readout.replaceChildren(element("strong", {}, ends), ` ${numberOf(counts.get(cell) ?? 0, "value", "values")}`);
        return (area.across(from(cell)) + area.across(from(cell + 1))) / 2;
      }, () => readout.replaceChildren(hint));
      return area.plot;
    };
    responsive(host, draw);
    host.append(readout);
  }

  for (const figure of document.querySelectorAll("figure.curves")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const host = element("div");
    figure.querySelector("details").before(host);
    curves(host, data);
  }
  return { curves, overTime, bars };
})());
