"use strict";
/* A grid of small charts. A single line may have a band, between `low` and `high`. All share a crosshair.

     telemetry.grid(host, {items: [{name, group?, unit, x: [x], lines: [{name, values, low?, high?}], facts: [[text, value]]}],
                           axis: "step" | "time", domain?, marks?, smoothing?, held?, band?, what})

   `held`: a value lasts until the next one. `band`: what a band goes over, such as "rank".
   An item with `means` has points that are means of several steps: of those after the point before, for the first
   point of those from `from` on; or of the steps in `ranges: [[first, last]]`. */
Object.assign(telemetry, (() => {
  const { element, svg, count, quantity, seconds, known, linear, timeAxis, valueAxis, ground, path, stretches,
          responsive, crosshair, follow, hair, drawMarks, wantsLog, color } = telemetry;
  const SHOWN = 24; // of each group, before "show all"
  const FILTER_FROM = 12;
  const SMALL = 130, LARGE = 320;
  const SMOOTH_FROM = 30; // points from which a line is smoothed
  const USUAL = 0.6;

  /** Exponential moving average, corrected for its start; gaps stay. */
  function smoothed(values, weight) {
    let sum = 0, share = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = sum * weight + value * (1 - weight);
      share = share * weight + (1 - weight);
      return sum / share;
    });
  }

  const smooths = (line, state) => state.weight > 0 && known(line.values).length >= SMOOTH_FROM;

  /** What the strokes of a grid mean; only those that are drawn. */
  function strokes(data, state) {
    const lines = data.items.flatMap((item) => item.lines);
    return [
      ...(lines.some((line) => smooths(line, state)) ? ["line: smoothed", "pale: as recorded"] : []),
      ...(lines.some((line) => known(line.low ?? []).length) ? [`band: lowest to highest ${data.band ?? "value"}`] : []),
    ].join(" · ");
  }

  function stepAxis(low, high, ticks) {
    const axis = linear(low, high, "", ticks);
    return { ...axis, ends: [low, high], ticks: axis.ticks.filter(Number.isInteger), text: (at) => (at < 1e5 ? count(at) : telemetry.short(telemetry.scaled(at))) };
  }

  /** One chart of the grid. */
  function cell(item, data, state, cross) {
    const lines = item.lines.map((line, index) => ({ low: [], high: [], ...line, index }));
    const several = lines.length > 1;
    const now = element("span", { class: "moment" });
    const facts = element("span", { class: "facts" },
      ...item.facts.flatMap(([text, value], at) => [at ? " · " : "", text && `${text} `, element("b", {}, value)]));
    const read = lines.map(() => element("b", {}));
    const keys = several ? lines.map((line) => element("span", { class: `key ${color(line)}` }, `${line.name} `, read[line.index])) : [];
    const enlarge = element("button", { type: "button", class: "enlarge", "aria-expanded": "false", title: item.name },
      element("span", { class: "name" }, item.name));
    const box = element("div", { class: "cell" }, enlarge, element("p", {}, facts, now, ...keys));
    let large = false, area, move = () => {};
    const at = (x) => {
      let best = 0;
      item.x.forEach((one, index) => { if (Math.abs(one - x) < Math.abs(item.x[best] - x)) best = index; });
      return best;
    };
    const worth = ({ values, low, high }, place) => quantity(values[place], item.unit) + (known([low[place], high[place]]).length === 2
      ? ` (${data.band ? `by ${data.band} ` : ""}${quantity(low[place], item.unit)} to ${quantity(high[place], item.unit)})` : "");
    /** The step of a point, or the steps that it is the mean of. */
    const stepsOf = (place) => {
      const neighbours = [!item.means ? item.x[place] : place ? item.x[place - 1] + 1 : item.from, item.x[place]];
      const [first, last] = item.ranges ? item.ranges[place] : neighbours;
      if (first === last) return [`step ${count(last)}`, ": "];
      return [first === null || first === undefined ? `steps to ${count(last)}` : `steps ${count(first)}–${count(last)}`, ", mean "];
    };
    const newest = (place) => (item.means && !several && place === item.x.length - 1 && item.facts.length
      ? `, ${item.facts[0].filter(Boolean).join(" ")}` : "");
    cross.charts.add((x) => {
      if (!area) return;
      const place = x === null ? -1 : at(x);
      move(place < 0 ? null : area.across(item.x[place]));
      facts.hidden = place >= 0;
      const [moment, then] = place < 0 ? [""] : data.axis === "step" ? stepsOf(place) : [seconds(item.x[place]), ": "];
      now.textContent = place < 0 ? moment : several ? `${moment}${then.replace(/[: ]+$/, "")}` : `${moment}${then}${worth(lines[0], place)}${newest(place)}`;
      if (several) read.forEach((one, index) => { one.textContent = place < 0 ? "" : worth(lines[index], place); });
    });

    const spots = (part) => part.map(([index, value]) => [area.across(item.x[index]), area.up(value)]);
    const stairs = (points) => points.flatMap(([x, y], at) => (at ? [[x, points[at - 1][1]], [x, y]] : [[x, y]]));
    const drawLine = (line, values, kind) => stretches(values).map(spots).forEach((points) =>
      area.plot.append(points.length > 1 ? svg("path", { class: `${kind} ${color(line)}`, d: path(data.held ? stairs(points) : points) })
        : svg("circle", { class: `dot ${color(line)}`, cx: points[0][0], cy: points[0][1], r: 2.5 })));
    function drawBand(line) {
      const both = line.low.map((value, index) => (value === null || line.high[index] === null ? null : value));
      for (const part of stretches(both)) {
        const upper = part.map(([index]) => [index, line.high[index]]).reverse();
        area.plot.append(svg("path", { class: `band ${color(line)}`, d: path(spots([...part, ...upper])) + "Z" }));
      }
    }

    let again = () => {};
    function draw() {
      again = responsive(box, (width) => {
        const ticks = Math.max(2, Math.floor(width / (large ? 110 : 90)));
        const [first, last] = data.domain ?? [item.x[0], item.x[item.x.length - 1]];
        const x = data.axis === "step" ? stepAxis(first, last, ticks) : timeAxis(first, last, ticks);
        const shown = known(lines.flatMap(({ values, low, high }) => [...values, ...low, ...high]));
        const log = state.log && shown.every((value) => value > 0) && wantsLog(shown);
        const y = valueAxis(shown.length ? shown : [0], item.unit, { log, fit: true, count: large ? 5 : 3 });
        area = ground(width, large ? LARGE : SMALL, x, y, item.name, { left: large ? 62 : 54, right: 8, top: 8, bottom: 24 });
        for (const line of lines) {
          if (line.low.length) drawBand(line);
          const smooth = smooths(line, state);
          drawLine(line, line.values, smooth ? "line raw" : "line");
          if (smooth) drawLine(line, smoothed(line.values, state.weight), "line");
        }
        drawMarks(area, data.marks ?? [], false);
        if (item.x.length) follow(area, item.x, cross, item.name);
        move = hair(area);
        return area.plot;
      });
    }
    enlarge.addEventListener("click", () => {
      large = !large;
      box.classList.toggle("large", large);
      enlarge.setAttribute("aria-expanded", String(large));
      again();
      if (large) box.scrollIntoView({ block: "nearest" });
    });
    return { box, draw, again: () => again() };
  }

  function grid(host, data) {
    const state = { weight: data.smoothing ? USUAL : 0, log: false }, cross = crosshair(), cells = [];
    const tools = element("div", { class: "tools" }), status = element("span", { class: "soft", role: "status" });
    const groups = new Map();
    for (const item of data.items) groups.set(item.group ?? "", [...(groups.get(item.group ?? "") ?? []), item]);

    const parts = [...groups].map(([name, items]) => {
      const box = element("div", { class: "grid-cells" });
      const more = element("button", { type: "button", class: "more" });
      const title = groups.size > 1 ? element("h4", {}, element("span", { class: "name" }, name || "others"), element("small", {}, count(items.length))) : null;
      const part = element("div", { class: "grid-group" }, title, box, more);
      host.append(part);
      const made = new Map();
      let all = false, words = [];
      function renew() {
        const found = items.filter((item) => words.every((word) => item.name.toLowerCase().includes(word)));
        const shown = all ? found : found.slice(0, SHOWN);
        const fresh = [];
        for (const item of shown) if (!made.has(item)) {
          const one = cell(item, data, state, cross);
          made.set(item, one);
          cells.push(one);
          fresh.push(one);
        }
        box.replaceChildren(...shown.map((item) => made.get(item).box));
        fresh.forEach((one) => one.draw());
        more.hidden = shown.length === found.length;
        more.textContent = `Show all ${count(found.length)}`;
        part.hidden = !found.length;
        return found.length;
      }
      more.addEventListener("click", () => { all = true; renew(); });
      addEventListener("beforeprint", () => { all = true; renew(); });
      return { filter: (given) => { words = given; return renew(); }, renew };
    });

    if (data.items.length >= FILTER_FROM) {
      const filter = element("input", { type: "search", placeholder: "Filter by name", "aria-label": `Filter ${data.what}` });
      filter.addEventListener("input", () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = parts.reduce((sum, part) => sum + part.filter(words), 0);
        status.textContent = words.length ? `${count(found)} of ${count(data.items.length)} ${data.what}` : `${count(data.items.length)} ${data.what}`;
      });
      status.textContent = `${count(data.items.length)} ${data.what}`;
      tools.append(filter, status);
    }
    if (data.smoothing) {
      const slider = element("input", { type: "range", min: "0", max: "0.98", step: "0.02", value: String(USUAL) });
      const shown = element("output", {}, USUAL.toFixed(2));
      slider.addEventListener("input", () => {
        state.weight = Number(slider.value);
        shown.textContent = state.weight ? state.weight.toFixed(2) : "off";
        tell();
        cells.forEach((one) => one.again());
      });
      tools.append(element("label", {}, "Smoothing ", slider, shown));
      tools.append(element("button", { type: "button", class: "scale", "aria-pressed": "false", title: "Logarithmic values", on: { click: (event) => {
        state.log = !state.log;
        event.currentTarget.setAttribute("aria-pressed", String(state.log));
        cells.forEach((one) => one.again());
      } } }, "log scale"));
    }
    const legend = element("p", { class: "soft strokes" });
    const tell = () => { legend.textContent = strokes(data, state); legend.hidden = !legend.textContent; };
    tell();
    host.prepend(tools, legend);
    tools.hidden = !tools.children.length;
    parts.forEach((part) => part.renew());
  }
  return { grid, smoothed };
})());
