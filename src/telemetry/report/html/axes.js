"use strict";
/* Axes and empty plots, as SVG. An axis is {place: value → 0…1, ticks: [value], text: value → label, ends?: [value],
   range?: [low, high]}: `ends` have labels before all ticks, and only an axis with a `range` can be zoomed. */
Object.assign(telemetry, (() => {
  const { element, svg, quantity, durationNs, nature } = telemetry;
  const FINE_TO_S = 100; // moments from here on are told in whole seconds
  const CHAR = 6.6; // width of a character of a label
  const DRAG = 5; // pixels from which a drag chooses a range
  const LOG_FROM = 20; // largest over smallest value from which a logarithmic axis shows more
  const FIT_FROM = 0.35; // smallest over largest value from which an axis need not begin at 0
  const STEPS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

  const whole = (text) => text.replace(/ 0 (s|min)$/, "");
  const short = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
  const label = (value, unit) => (value === 0 ? "0" : short(quantity(value, unit)));
  const seconds = (at) => (at ? whole(short(durationNs(at * 1e9))) : "0 s");
  const known = (values) => values.filter((value) => value !== null && value !== undefined);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  /** The value of a block of data with this id, or null; a large block is compressed. */
  async function read(name) {
    const block = document.getElementById(name);
    if (!block) return null;
    if (!block.dataset.coding) return JSON.parse(block.textContent);
    const bytes = Uint8Array.from(atob(block.textContent), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream(block.dataset.coding))).json();
  }

  /** Round steps: powers of two for sizes, 1-2-5 for all else. */
  function roundStep(wanted, kind) {
    if (kind === "bytes") return 2 ** Math.ceil(Math.log2(wanted));
    const power = 10 ** Math.floor(Math.log10(wanted));
    return [1, 2, 5, 10].find((factor) => factor * power >= wanted * 0.999) * power;
  }

  function linear(low, high, unit, count = 5) {
    const [kind, factor] = nature(unit);
    const step = roundStep((Math.max(high - low, Number.MIN_VALUE) * factor) / count, kind) / factor;
    const first = Math.ceil(low / step - 1e-9), ticks = [];
    for (let at = first; at * step <= high * (1 + 1e-9) && ticks.length < 12; at++) ticks.push(at * step);
    return { place: (value) => (value - low) / (high - low || 1), ticks, text: (value) => label(value, unit), range: [low, high] };
  }

  function logarithmic(low, high, unit, count = 8) {
    const [kind, factor] = nature(unit);
    const place = (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low || 2);
    const decades = Math.log10(high / low), ticks = [];
    if (kind === "bytes") {
      const stride = Math.max(1, Math.ceil((decades * Math.log2(10)) / count));
      for (let power = Math.ceil(Math.log2(low * factor)); 2 ** power <= high * factor; power += stride)
        ticks.push(2 ** power / factor);
    } else {
      const factors = decades < 2.2 ? [1, 2, 5] : [1], stride = Math.max(1, Math.ceil(decades / count));
      for (let power = Math.floor(Math.log10(low * factor)); 10 ** power <= high * factor; power += stride)
        for (const step of factors) ticks.push((step * 10 ** power) / factor);
    }
    const inside = ticks.filter((at) => at >= low * 0.999 && at <= high * 1.001);
    return { place, ticks: inside, text: (value) => label(value, unit) };
  }

  /** An axis over all values: from 0, unless it is logarithmic or `fit` and 0 is far away. */
  function valueAxis(values, unit, { log = false, fit = false, count = 5 } = {}) {
    const high = most(values), low = least(values), positive = values.filter((value) => value > 0);
    if (log && positive.length) return logarithmic(least(positive) / 1.15, Math.max(high, least(positive)) * 1.15, unit);
    if (fit && high > low && (low < 0 || low > FIT_FROM * high)) {
      const room = (high - low) * 0.08;
      return linear(low >= 0 ? Math.max(low - room, 0) : low - room, high <= 0 ? Math.min(high + room, 0) : high + room, unit, count);
    }
    return linear(Math.min(low, 0), high > 0 ? high * 1.05 : low < 0 ? 0 : 1, unit, count);
  }

  /** True if most of the values would lie on the ground of a linear axis. */
  const wantsLog = (values) => {
    const positive = values.filter((value) => value > 0);
    return positive.length > 1 && most(positive) / least(positive) > LOG_FROM;
  };

  function timeAxis(low, high, count = 7) {
    const step = STEPS_S.find((one) => (one >= 1 || high < FINE_TO_S) && (high - low) / one <= count) ?? roundStep((high - low) / count, "plain");
    const ticks = [];
    for (let at = Math.ceil(low / step); at * step <= high + 1e-9 && ticks.length < 16; at++) ticks.push(at * step);
    return { place: (at) => (at - low) / (high - low || 1), ticks, text: seconds, range: [low, high] };
  }

  /** An empty plot: {plot, inside, across: value → x, up: value → y, second: value → y, at: x → value, left, right, top,
     bottom}. What is drawn `inside` is cut at the edges of a plot that shows a part of x. `other` is a second value
     axis, on the right: {axis, color}. `titles: [left, right]` name what axes without a unit count, and `x.word` those
     of x. */
  function ground(width, height, x, y, name, { left = 68, right = 14, top = 12, bottom = 30, cut = false, other = null, titles } = {}) {
    left = Math.max(left, 12 + CHAR * most([0, ...y.ticks.map((at) => y.text(at).length)]));
    const end = width - right, base = height - bottom;
    const across = (value) => left + x.place(value) * (end - left);
    const on = (axis) => (value) => base - axis.place(value) * (base - top);
    const up = on(y), [low, high] = x.range ?? [0, 0];
    const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name });
    for (const at of y.ticks) {
      plot.append(svg("line", { class: "grid", x1: left, x2: end, y1: up(at), y2: up(at) }));
      plot.append(svg("text", { class: "tick", x: left - 8, y: up(at) + 4, "text-anchor": "end" }, y.text(at)));
    }
    const taken = []; // by labels: the ends of an axis come first, if it asks for them
    for (const at of new Set([...(x.ends ?? []), ...x.ticks])) {
      const text = x.text(at), half = text.length * 3.4;
      const middle = Math.min(Math.max(across(at), left), width - half - 2);
      const free = taken.every(([from, to]) => middle + half + 6 < from || middle - half > to + 6);
      if (free || !x.ends) plot.append(svg("line", { class: "grid", x1: across(at), x2: across(at), y1: top, y2: base }));
      if (!free) continue;
      taken.push([middle - half, middle + half]);
      plot.append(svg("text", { class: "tick", x: middle, y: base + 18, "text-anchor": "middle" }, text));
    }
    plot.append(svg("line", { class: "axis", x1: left, x2: end, y1: base, y2: base }));
    const [ofLeft, ofRight] = titles ?? [];
    if (ofLeft) plot.append(svg("text", { class: "tick word", x: 2, y: top - 8 }, ofLeft));
    if (ofRight) plot.append(svg("text", { class: `tick ${other.color}`, x: end + 8, y: top - 8 }, ofRight));
    if (x.word) plot.append(svg("text", { class: "tick word", x: 2, y: base + 18 }, x.word));
    for (const at of other?.axis.ticks ?? [])
      plot.append(svg("text", { class: `tick ${other.color}`, x: end + 8, y: on(other.axis)(at) + 4 }, other.axis.text(at)));
    let inside = plot;
    if (cut) {
      const wide = Math.max(end - left, 1); // what overflows a picture in a picture is not shown
      inside = plot.appendChild(svg("svg", { x: left, y: top - 2, width: wide, height: base - top + 4, viewBox: `${left} ${top - 2} ${wide} ${base - top + 4}` }));
    }
    const at = (pixel) => low + ((pixel - left) / (end - left)) * (high - low);
    return { plot, inside, across, up, second: other ? on(other.axis) : up, at, left, right: end, top, bottom: base, range: x.range };
  }

  const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

  /** Runs of neighbours in a list that are not null: [[[place, value], …], …]. */
  function stretches(values) {
    const parts = [];
    let part = null;
    values.forEach((value, at) => {
      if (value === null || value === undefined) part = null;
      else if (part) part.push([at, value]);
      else parts.push((part = [[at, value]]));
    });
    return parts;
  }

  /** Draws now, and anew whenever the width changes. `draw(width)` returns a plot; returns how to draw anew. */
  function responsive(host, draw) {
    const place = host.appendChild(element("div", { class: "plot" }));
    let drawn = 0;
    const again = () => {
      const focused = place.contains(document.activeElement);
      drawn = Math.max(Math.round(place.clientWidth), 200);
      place.replaceChildren(draw(drawn));
      if (focused) place.firstChild.focus();
    };
    new ResizeObserver(() => Math.abs(place.clientWidth - drawn) > 1 && place.clientWidth && again()).observe(place);
    again();
    return again;
  }

  /** What several charts share: a crosshair, and the range of x that they show. `show` moves the crosshair of all to the
     same value of x, or hides it for null. `zoom` draws all anew for a range, or for all of x for null. Charts that can
     be zoomed have put how they are drawn anew into `draws`; `heard` has those who are told of a new range. */
  function crosshair() {
    const charts = new Set(), draws = new Set(), heard = new Set();
    const cross = {
      charts, draws, heard, range: null,
      show: (at) => charts.forEach((move) => move(at)),
      zoom: (range) => {
        cross.range = range;
        for (const told of [...draws, ...heard]) told(range);
      },
    };
    return cross;
  }

  const addressed = new Map(); // names in the address of the page → crosshairs
  let isOpening = false;

  /** Keeps the range of a crosshair in the address of the page, `#time=3,8`, so that a link and the back button show it. */
  function address(cross, name) {
    addressed.set(name, cross);
    cross.heard.add(() => {
      const parts = [...addressed].filter(([, { range }]) => range).map(([key, { range: [from, to] }]) =>
        `${encodeURIComponent(key)}=${[from, to].map((at) => Number(at.toPrecision(6))).join(",")}`);
      const hash = parts.length ? `#${parts.join("&")}` : "#";
      if (!isOpening && (parts.length || location.hash.includes("=")) && hash !== location.hash) history.pushState(null, "", hash);
    });
  }

  /** Shows the ranges in the address. A link to a section leaves them as they are. */
  function openAddress() {
    const text = location.hash.slice(1), given = new URLSearchParams(text);
    if (text && !text.includes("=")) return;
    isOpening = true;
    for (const [name, cross] of addressed) {
      const ends = (given.get(name) ?? "").split(",").map(Number), whole = cross.whole;
      const [from, to] = whole ? [Math.max(ends[0], whole[0]), Math.min(ends[1], whole[1])] : [];
      if (given.has(name) && from < to) cross.zoom([from, to]);
      else if (cross.range) cross.zoom(null);
    }
    isOpening = false;
  }
  addEventListener("hashchange", openAddress);

  /** True for a step or point between two values of x. */
  const within = (range, start, end = start) => !range || (end >= range[0] && start <= range[1]);

  /** Values of a line in a range of x, with those where it crosses the ends of the range. */
  function visible(values, xs, range, held = false) {
    if (!range) return known(values);
    const found = [];
    values.forEach((value, at) => {
      if (value === null || value === undefined) return;
      if (within(range, xs[at])) found.push(value);
      const next = values[at + 1];
      if (next === null || next === undefined) return;
      for (const end of range)
        if (xs[at] < end && end < xs[at + 1]) found.push(held ? value : value + ((next - value) * (end - xs[at])) / (xs[at + 1] - xs[at]));
    });
    return found;
  }

  /** Lets pointer and arrow keys move a crosshair over a plot, a drag choose a range of x, and a double click show all.
     `places` are the values of x where the crosshair may stop. */
  function follow(area, places, cross, name) {
    const { plot } = area, seen = places.filter((at) => within(cross.range, at));
    const zooms = cross.draws.size > 0 && area.range;
    const pixel = (event) => {
      const box = plot.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width;
    };
    const nearest = (at) => {
      let best = 0;
      seen.forEach((place, index) => {
        if (Math.abs(area.across(place) - at) < Math.abs(area.across(seen[best]) - at)) best = index;
      });
      return best;
    };
    let now = null, from = null, chosen = null;
    const move = (index) => {
      if (!seen.length) return;
      now = index;
      cross.show(seen[index]);
    };
    const choose = (low, high) => {
      if (seen.filter((at) => at >= low && at <= high).length > 1) cross.zoom([low, high]);
    };
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("aria-label", `${name}. Arrow keys read values${zooms ? ", plus and minus zoom" : ""}.`);
    plot.addEventListener("pointermove", (event) => {
      const at = Math.min(Math.max(pixel(event), area.left), area.right);
      if (from !== null) {
        chosen.setAttribute("x", Math.min(from, at).toFixed(1));
        chosen.setAttribute("width", Math.abs(at - from).toFixed(1));
      }
      move(nearest(at));
    });
    plot.addEventListener("pointerleave", () => cross.show(null));
    plot.addEventListener("blur", () => cross.show(null));
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], wide = zooms ? { "+": 0.25, "=": 0.25, "-": 1 }[event.key] : 0;
      if (zooms && event.key === "Escape") cross.zoom(null);
      if (!by && !wide) return;
      event.preventDefault();
      if (by) return move(Math.min(Math.max(now === null ? (by > 0 ? 0 : seen.length - 1) : now + by, 0), seen.length - 1));
      const [low, high] = area.range, [first, last] = cross.whole, middle = now === null ? (low + high) / 2 : seen[now];
      const [left, right] = [Math.max(middle - (high - low) * wide, first), Math.min(middle + (high - low) * wide, last)];
      if (left <= first && right >= last) cross.zoom(null);
      else choose(left, right);
    });
    if (!zooms) return;
    // Some charts begin late or end early.
    if (!cross.range) cross.whole = cross.whole ? [Math.min(cross.whole[0], area.range[0]), Math.max(cross.whole[1], area.range[1])] : area.range;
    plot.classList.add("zooms");
    plot.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      from = Math.min(Math.max(pixel(event), area.left), area.right);
      chosen = plot.appendChild(svg("rect", { class: "chosen", x: from, width: 0, y: area.top, height: area.bottom - area.top }));
      plot.setPointerCapture(event.pointerId);
    });
    const drop = () => {
      chosen?.remove();
      from = chosen = null;
    };
    plot.addEventListener("pointercancel", drop);
    plot.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const ends = [from, Math.min(Math.max(pixel(event), area.left), area.right)].sort((a, b) => a - b);
      drop();
      if (ends[1] - ends[0] > DRAG) choose(...ends.map(area.at));
    });
    plot.addEventListener("dblclick", () => cross.zoom(null));
  }

  /** A bar at the foot of the window while the charts of a crosshair show a range: `words(range)`, a button that shows
     all, and a hint with a command to copy. */
  function rangeBar(cross, words, hint = "", command = () => "") {
    const text = element("strong"), typed = element("code");
    const copy = element("button", { type: "button", on: { click: () => navigator.clipboard.writeText(typed.textContent) } }, "Copy");
    const whole = element("button", { type: "button", on: { click: () => cross.zoom(null) } }, "Show all");
    const row = element("div", { class: "range-row", role: "status", hidden: true }, text, whole, hint, typed, copy);
    const bar = document.querySelector(".range-bar") ?? document.body.appendChild(element("div", { class: "range-bar" }));
    bar.append(row);
    cross.heard.add((range) => {
      row.hidden = !range;
      if (!range) return;
      text.textContent = words(range);
      typed.textContent = command(range);
      typed.hidden = !typed.textContent;
      copy.hidden = typed.hidden || !navigator.clipboard;
    });
    addEventListener("beforeprint", () => cross.range && cross.zoom(null));
  }

  /** The vertical line of a crosshair; `at(x)` moves it, `at(null)` hides it. */
  function hair(area) {
    const line = area.plot.appendChild(svg("line", { class: "hair", y1: area.top, y2: area.bottom, visibility: "hidden" }));
    return (x) => {
      line.setAttribute("visibility", x === null ? "hidden" : "visible");
      if (x !== null) for (const end of ["x1", "x2"]) line.setAttribute(end, x.toFixed(1));
    };
  }

  return { short, label, seconds, known, least, most, read, linear, logarithmic, valueAxis, wantsLog, timeAxis,
           ground, path, stretches, responsive, crosshair, address, openAddress, within, visible, follow, rangeBar, hair };
})());
