"use strict";
/* Charts as SVG, drawn to the width there is:

     telemetry.overTime(host, {title?, unit, start: [s], end: [s], lines: [{name, values: [v | null], whole?, tone?,
                               start?, end?, right?, unit?, hue?, drawn?: "area" | "bars"}], marks?: [[s, text]], names?,
                               domain?: [s, s], whole?, axes?: [left, right]}, crosshair?)
     telemetry.curves(host, {title?, unit, lines: [{name, points: [[fraction, value], …], count?, bounds?: [[fraction, low, high]]}]})
     telemetry.distribution(host, {title?, unit, edges: [v], counts: [n], marks?: [[text, v]]})
     telemetry.bars(host, {unit, cell_unit, cells: [[cell, count]]})

   Each appends to `host`. Lines of several runs may have times of their own. A `right` line belongs to the axis on the
   right, in its own unit. `whole` is what a line shows while no
   moment is read. Figures of class `curves` and `over-time` with a block of JSON are drawn when the page is there. */
Object.assign(telemetry, (() => {
  const { element, svg, count, numberOf, durationNs, quantity, short, label, seconds, known, most, linear,
          logarithmic, valueAxis, wantsLog, timeAxis, ground, path, stretches, responsive, crosshair, within, visible, follow, rangeBar, hair, saves } = telemetry;
  const COLORS = 8;
  const NARROWEST = 12; // cells of a distribution, so that few bars are not walls
  const NINES = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999, 0.99999999];
  const LEAST_BAR = 3; // height of a bar of any value but 0
  const TALL = 240; // height of a chart with two value axes
  const CHAR = 6.2; // width of a small character

  /** As many digits as tell the rest up to 1: 50 %, 98.3 %, 99.95 %. */
  const percent = (fraction) => {
    const digits = Math.max(0, Math.ceil(-Math.log10((1 - fraction) * 100) - 1e-9)) + 1;
    return `${short((fraction * 100).toFixed(Math.min(digits, 15)))} %`;
  };
  const color = (line) => (line.tone ? `${line.tone}-key` : `c${(line.hue ?? line.index) % COLORS}`) + (line.right ? " dashed" : "");
  const nothing = (host, text) => host.append(element("p", { class: "nothing" }, text));
  const named = (line, unit) => (unit ? `${line.name} (${unit})` : line.name);
  const numbered = (lines) => lines.map((line, index) => ({ ...line, index }));

  /** Legend whose entries turn lines off, and the switch of the value axis. */
  function controls(lines, state, again, saved) {
    const legend = element("div", { class: "legend" });
    if (lines.length > 1) for (const line of lines) legend.append(toggle(line, state, again, line.name));
    legend.append(logSwitch(state, again), saved);
    return legend;
  }

  function toggle(line, state, again, ...content) {
    const button = element("button", {
      type: "button", class: `key ${color(line)}`, "aria-pressed": "true", title: "Show or hide this line",
      on: { click: () => {
        state.hidden.has(line.index) ? state.hidden.delete(line.index) : state.hidden.add(line.index);
        button.setAttribute("aria-pressed", String(!state.hidden.has(line.index)));
        again();
      } },
    }, ...content);
    return button;
  }

  function logSwitch(state, again, what = "Logarithmic values") {
    const scale = element("button", {
      type: "button", class: "scale", "aria-pressed": String(state.log), title: what,
      on: { click: () => {
        state.log = !state.log;
        scale.setAttribute("aria-pressed", String(state.log));
        again();
      } },
    }, "log scale");
    return scale;
  }

  const reading = (lines, value, unit, extra = () => "") =>
    lines.flatMap((line) => [
      element("span", { class: `key ${color(line)}` }, `${line.name} `,
        element("b", {}, quantity(value(line), unit)), extra(line)),
      " ",
    ]);

  function curves(host, data) {
    const lines = numbered(data.lines);
    if (!lines.length) return nothing(host, "No values.");
    // The last value that is not the maximum ends the axis; the maximum itself is 1 in `count`, or a bit beyond.
    const reach = (line) => Math.max(...line.points.filter(([fraction]) => fraction < 1).map(([f]) => 1 / (1 - f)), 1);
    for (const line of lines) line.end = Math.log10(Math.max(line.count ?? reach(line) * 2, 1.25));
    const place = (fraction, end) => Math.min(fraction < 1 ? -Math.log10(1 - fraction) : end, end);
    const begin = Math.min(...lines.map((line) => place(line.points[0][0], line.end)), 1);
    const share = (at, end) => (at - begin) / (end - begin || 1);
    const all = lines.flatMap((line) => line.points.map(([, value]) => value));
    const state = { hidden: new Set(), log: wantsLog(all) };
    const hint = "Move over the curves to read them.";
    const readout = element("div", { class: "readout" }, hint);
    const cross = crosshair();

    const draw = (width) => {
      const shown = lines.filter((line) => !state.hidden.has(line.index));
      const end = shown.reduce((longest, line) => Math.max(longest, line.end), 0.3);
      const values = (shown.length ? shown : lines).flatMap((line) => line.points.map(([, value]) => value));
      const x = { place: (fraction) => share(place(fraction, end), end), ticks: NINES.filter((f) => place(f, Infinity) >= begin && place(f, Infinity) <= end),
                  text: percent };
      const area = ground(width, 280, x, valueAxis(values, data.unit, state), "Percentile curves");
      for (const line of shown) {
        const spot = ([fraction, value]) => [area.left + share(place(fraction, line.end), end) * (area.right - area.left), area.up(value)];
        if (line.bounds?.length) {
          const edge = [...line.bounds.map(([f, low]) => [f, low]), ...line.bounds.map(([f, , high]) => [f, high]).reverse()];
          area.plot.append(svg("path", { class: `band ${color(line)}`, d: path(edge.map(spot)) + "Z" }));
        }
        area.plot.append(svg("path", { class: `line ${color(line)}`, d: path(line.points.map(spot)) }));
        if (line.points.length < 30)
          for (const [cx, cy] of line.points.map(spot))
            area.plot.append(svg("circle", { class: `dot ${color(line)}`, cx, cy, r: 3 }));
      }
      const fractions = [...new Set(shown.flatMap((line) => line.points.map(([fraction]) => fraction)))].sort((a, b) => a - b);
      const move = hair(area);
      cross.charts.clear();
      cross.charts.add((fraction) => {
        move(fraction === null ? null : area.across(fraction));
        if (fraction === null) return readout.replaceChildren(hint);
        const value = (line) => (line.points.find(([f]) => f >= fraction) ?? [])[1];
        const within = (line) => {
          const bound = line.bounds?.find(([f]) => f === fraction);
          return bound ? ` (${quantity(bound[1], data.unit)} – ${quantity(bound[2], data.unit)})` : "";
        };
        const title = { 0: "min", 1: "max" }[fraction] ?? percent(fraction);
        return readout.replaceChildren(element("strong", {}, title), " \u2002", ...reading(shown, value, data.unit, within));
      });
      if (fractions.length) follow(area, fractions, cross, "Percentile curves");
      return area.plot;
    };
    const again = responsive(host, draw);
    host.append(readout);
    readout.before(controls(lines, state, again, saves(host, data.title, () => {
      const shown = lines.filter((line) => !state.hidden.has(line.index));
      const places = [...new Set(shown.flatMap((line) => line.points.map(([fraction]) => fraction)))].sort((a, b) => a - b);
      const value = (line, fraction) => line.points.find(([at]) => at === fraction)?.[1];
      const bounds = (line, fraction) => line.bounds?.length ? (line.bounds.find(([at]) => at === fraction)?.slice(1) ?? ["", ""]) : [];
      return [["fraction", ...shown.flatMap((line) => [named(line, data.unit), ...(line.bounds?.length ? [`${line.name} low`, `${line.name} high`] : [])])],
        ...places.map((at) => [at, ...shown.flatMap((line) => [value(line, at), ...bounds(line, at)])])];
    })));
  }

  /** Marks as vertical lines. With `names`, each name stands beside its line or above another name, where there is room;
     outer ones come first, and long ones are cut only if they fit nowhere. Names may end `beyond` the plot. */
  function drawMarks(area, marks, names, beyond = 0) {
    const taken = [], shown = marks.map(([at, text]) => [area.across(at), text]).filter(([x]) => x >= area.left - 1 && x <= area.right + 1);
    for (const [x, text] of shown)
      area.plot.append(svg("line", { class: "mark", x1: x, x2: x, y1: area.top, y2: area.bottom }, svg("title", {}, text)));
    for (const [x, text] of names ? [...shown.slice(0, 1), ...shown.slice(1).reverse()] : []) {
      const letters = [...text], texts = letters.length > 22 ? [text, `${letters.slice(0, 21).join("")}…`] : [text];
      const places = texts.flatMap((one) => {
        const wide = [...one].length * CHAR;
        return [3, 14].flatMap((above) => [[x + 4, x + 4 + wide, above, one, "start"], [x - 4 - wide, x - 4, above, one, "end"]]);
      });
      const place = places.find(([left, right, above]) => left >= area.left - 8 && right <= area.right + beyond
        && taken.every(([from, to, row]) => row !== above || left > to + 4 || right < from - 4));
      if (!place) continue;
      taken.push(place);
      const [left, right, above, one, anchor] = place;
      area.plot.append(svg("text", { class: "mark-name", x: (anchor === "end" ? right : left).toFixed(1), y: area.top - above, "text-anchor": anchor }, one));
    }
  }

  /** The head of a chart over time: its title, the moment that is read, and controls. */
  function head(host, data, rows, ...more) {
    const moment = element("span", { class: "moment" }, data.whole ?? "");
    host.append(element("div", { class: "chart-head" }, data.title ? element("h3", {}, data.title, telemetry.help(data.help)) : null, moment,
      element("span", { class: "chart-tools" }, ...more, saves(host, data.title, rows))));
    return moment;
  }

  function overTime(host, data, shared) {
    const cross = shared ?? crosshair();
    const own = (line) => ({ ...line, start: line.start ?? data.start, end: line.end ?? data.end });
    const lines = numbered(data.lines.map(own));
    if (!known(lines.flatMap((line) => line.values)).length) return nothing(host, "No values in any step.");
    const values = (some, range) => known(some.flatMap((line) => range
      ? line.drawn === "bars" ? line.values.filter((_, at) => within(range, line.start[at], line.end[at])) : visible(line.values, middle(line), range)
      : line.values));
    const rights = lines.filter((line) => line.right), ofUnit = (line) => line.unit ?? data.unit;
    const state = { hidden: new Set(), log: data.log ?? wantsLog(values(rights.length ? rights : lines)) };
    const range = data.domain ?? [Math.min(...lines.map((line) => line.start[0])), Math.max(...lines.map((line) => line.end.at(-1)))];
    const middle = (line) => line.values.map((_, at) => (line.start[at] + line.end[at]) / 2);
    const longest = lines.reduce((a, b) => (b.values.length > a.values.length ? b : a));
    const step = (line, at) => line.end.findIndex((end, index) => at < end && at >= line.start[index]);
    const legend = element("div", { class: "legend" });
    let again = () => {};
    if (shared) cross.draws.add(() => again());
    /** Rows of the steps that are shown, with a column for each line; lines may have steps of their own. */
    function rows() {
      const shown = lines.filter((line) => !state.hidden.has(line.index)), found = new Map();
      shown.forEach((line, column) => line.values.forEach((value, at) => {
        const [start, end] = [line.start[at], line.end[at]], key = `${start} ${end}`;
        if (!within(cross.range, start, end)) return;
        if (!found.has(key)) found.set(key, [start, end, ...shown.map(() => "")]);
        found.get(key)[2 + column] = value;
      }));
      return [["start_s", "end_s", ...shown.map((line) => named(line, ofUnit(line)))], ...[...found.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1])];
    }
    const moment = head(host, data, rows, logSwitch(state, () => again(), rights.length ? "Logarithmic axis on the right" : undefined));
    const read = lines.map((line) => element("b", {}, line.whole === undefined ? "" : quantity(line.whole, ofUnit(line))));
    for (const line of lines) {
      const text = [`${line.name} `, read[line.index]];
      legend.append(lines.length > 1 ? toggle(line, state, () => again(), ...text) : element("span", { class: `key ${color(line)}` }, ...text));
    }

    let move = () => {}, area;
    cross.charts.add((at) => {
      move(at === null ? null : area.across(at));
      const places = lines.map((line) => (at === null ? -1 : step(line, at)));
      lines.forEach((line, index) => {
        const shown = at === null ? line.whole : line.values[places[index]];
        read[index].textContent = at === null && shown === undefined ? "" : quantity(shown, ofUnit(line));
      });
      const place = step(longest, at);
      moment.textContent = at === null ? data.whole ?? ""
        : place < 0 ? seconds(at) : `${seconds(longest.start[place])} – ${seconds(longest.end[place])}`;
    });

    /** The value axis of some lines: over what they have in the range that is shown. */
    function axisOf(some, all, unit, log) {
      const seen = [values(some, cross.range), values(some), values(all)].find((found) => found.length);
      return valueAxis(seen, unit, { log });
    }

    function drawLine(line, up) {
      const at = middle(line), kind = color(line);
      if (line.drawn === "bars") return line.values.forEach((value, index) => {
        if (!value || !within(cross.range, line.start[index], line.end[index])) return;
        const x = area.across(line.start[index]), top = Math.min(up(value), area.bottom - LEAST_BAR);
        const wide = Math.max((area.across(line.end[index]) - x) * 0.7, 1.5), left = area.across(at[index]) - wide / 2;
        area.inside.append(svg("rect", { class: `bar ${kind}`, x: left.toFixed(1), y: top.toFixed(1), width: wide.toFixed(1), height: (area.bottom - top).toFixed(1) }));
      });
      for (const part of stretches(line.values)) {
        const points = part.map(([index, value]) => [area.across(at[index]), up(value)]);
        const [first, last] = [points[0], points[points.length - 1]];
        if (points.length === 1) area.inside.append(svg("circle", { class: `dot ${kind}`, cx: first[0], cy: first[1], r: 2.5 }));
        else {
          if (lines.length === 1 || line.drawn === "area") area.inside.append(svg("path", { class: `band ${kind}`,
            d: path([[first[0], area.bottom], ...points, [last[0], area.bottom]]) + "Z" }));
          area.inside.append(svg("path", { class: `line ${kind}`, d: path(points) }));
        }
      }
    }

    again = responsive(host, (width) => {
      const shown = lines.filter((line) => !state.hidden.has(line.index)), unit = rights[0]?.unit;
      const [lefts, others] = [shown.filter((line) => !line.right), shown.filter((line) => line.right)];
      const names = data.names && data.marks?.length, margins = { left: 60, top: names || data.axes ? 24 : 10, bottom: 26, cut: Boolean(cross.range), titles: data.axes };
      if (rights.length) Object.assign(margins, { right: 64, other: {
        axis: axisOf(others, rights, unit, state.log), color: rights.length === 1 ? color(rights[0]) : "",
      } });
      const y = axisOf(lefts, lines.filter((line) => !line.right), data.unit, state.log && !rights.length);
      area = ground(width, rights.length ? TALL : 200, timeAxis(...(cross.range ?? range), width < 480 ? 4 : width < 700 ? 7 : 12), y, data.title ?? "Over time", margins);
      const order = (line) => (line.drawn ? (line.drawn === "area" ? 0 : 1) : 2);
      for (const line of [...shown].sort((a, b) => order(a) - order(b))) drawLine(line, line.right ? area.second : area.up);
      drawMarks(area, data.marks ?? [], names);
      follow(area, middle(longest), cross, data.title ?? "Over time");
      move = hair(area);
      return area.plot;
    });
    host.append(legend);
  }

  /** Heights are densities, so that the area of a bar tells how many values it has. */
  function distribution(host, data) {
    const { counts } = data;
    if (!counts.some((number) => number)) return nothing(host, "No distribution.");
    const smallest = data.edges.find((at) => at > 0) ?? 1, last = data.edges[data.edges.length - 1];
    const log = data.edges[0] >= 0 && last / Math.max(data.edges[0], smallest) > 4;
    const edges = log ? data.edges.map((at) => Math.max(at, smallest / 2)) : data.edges; // 0 has no place on a logarithmic axis
    const widths = counts.map((_, at) => (log ? Math.log(edges[at + 1] / edges[at]) : edges[at + 1] - edges[at]));
    const usual = [...widths].sort((a, b) => a - b)[Math.floor(widths.length / 2)];
    const heights = counts.map((number, at) => (widths[at] > 0 ? (number * usual) / widths[at] : 0));
    const middles = counts.map((_, at) => (log ? Math.sqrt(edges[at] * edges[at + 1]) : (edges[at] + edges[at + 1]) / 2));
    const total = counts.reduce((sum, number) => sum + number, 0);
    const hint = "Move over the bars to read them.";
    const readout = element("div", { class: "readout" }, hint);
    const cross = crosshair();
    responsive(host, (width) => {
      const x = (log ? logarithmic : linear)(edges[0], last, data.unit, width < 480 ? 4 : 8);
      const y = { ...linear(0, most(heights) * 1.05, ""), text: (number) => (number < 1e6 ? count(number) : short(telemetry.scaled(number))) };
      const area = ground(width, 280, x, y, "Distribution", { top: 28, right: data.marks ? 30 : 14, titles: ["values"] });
      counts.forEach((number, at) => {
        if (!number) return;
        const left = area.across(edges[at]), top = Math.min(area.up(heights[at]), area.bottom - 1);
        const gap = area.across(edges[at + 1]) - left > 4 ? 1 : 0;
        const wide = Math.max(area.across(edges[at + 1]) - left - gap, 0.5);
        area.plot.append(svg("rect", { class: "bar c0", x: left, y: top, width: wide, height: area.bottom - top }));
      });
      drawMarks(area, (data.marks ?? []).map(([text, at]) => [at, text]), true, 28);
      const move = hair(area);
      cross.charts.clear();
      cross.charts.add((at) => {
        move(at === null ? null : area.across(at));
        const place = middles.indexOf(at);
        if (place < 0) return readout.replaceChildren(hint);
        const ends = `${quantity(data.edges[place], data.unit)} – ${quantity(data.edges[place + 1], data.unit)}`;
        return readout.replaceChildren(element("strong", {}, ends), ` ${numberOf(counts[place], "value", "values")}, ${short(((counts[place] / total) * 100).toPrecision(3))} %`);
      });
      follow(area, middles, cross, "Distribution");
      return area.plot;
    });
    host.append(element("div", { class: "legend" }, saves(host, data.title, () =>
      [[named({ name: "from" }, data.unit), named({ name: "to" }, data.unit), "values"], ...counts.map((number, at) => [data.edges[at], data.edges[at + 1], number])])), readout);
  }

  /** Lower edge of a display cell in ticks, as `telemetry.wire.cells.edge`. */
  const edge = (index) => (index < 4 ? index : (4 + (index % 4)) * 2 ** (Math.floor(index / 4) - 1));

  /** A distribution by cells of the display histogram, a quarter of a doubling wide. */
  function bars(host, data) {
    if (!data.cells.length) return nothing(host, "No distribution.");
    let first = data.cells[0][0], last = data.cells[data.cells.length - 1][0] + 1;
    while (last - first < NARROWEST) [first, last] = [Math.max(first - 1, 0), last + 1];
    const counts = new Map(data.cells), cells = Array.from({ length: last - first }, (_, at) => first + at);
    const edges = [...cells, last].map((cell) => edge(cell) * data.cell_unit);
    return distribution(host, { ...data, edges, counts: cells.map((cell) => counts.get(cell) ?? 0) });
  }

  const time = crosshair(); // of all figures over time
  for (const [kind, draw] of [["curves", curves], ["over-time", overTime]])
    for (const figure of document.querySelectorAll(`figure.${kind}`)) {
      const host = element("div");
      figure.querySelector("details").before(host);
      draw(host, JSON.parse(figure.querySelector("script").textContent), time);
    }
  if (time.draws.size) rangeBar(time, ([from, to]) => `${seconds(from)} – ${seconds(to)}`);
  return { curves, overTime, distribution, bars, color, head, named, drawMarks, nothing };
})());
