"use strict";
/* Axes and empty plots, as SVG. An axis is {place: value → 0…1, ticks: [value], text: value → label, ends?: [value]}. */
Object.assign(telemetry, (() => {
  const { element, svg, quantity, durationNs, nature } = telemetry;
  const LOG_FROM = 20; // largest over smallest value from which a logarithmic axis shows more
  const FIT_FROM = 0.35; // smallest over largest value from which an axis need not begin at 0
  const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

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
    return { place: (value) => (value - low) / (high - low || 1), ticks, text: (value) => label(value, unit) };
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
    const step = STEPS_S.find((one) => (high - low) / one <= count) ?? roundStep((high - low) / count, "plain");
    const ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 && ticks.length < 16; at += step) ticks.push(at);
    return { place: (at) => (at - low) / (high - low || 1), ticks, text: seconds };
  }

  /** An empty plot: {plot, across: value → x, up: value → y, left, right, top, bottom}. */
  function ground(width, height, x, y, name, { left = 68, right = 14, top = 12, bottom = 30 } = {}) {
    const end = width - right, base = height - bottom;
    const across = (value) => left + x.place(value) * (end - left);
    const up = (value) => base - y.place(value) * (base - top);
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
    return { plot, across, up, left, right: end, top, bottom: base };
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
      drawn = Math.max(Math.round(place.clientWidth), 200);
      place.replaceChildren(draw(drawn));
    };
    new ResizeObserver(() => Math.abs(place.clientWidth - drawn) > 1 && place.clientWidth && again()).observe(place);
    again();
    return again;
  }

  /** A crosshair that several charts share: `show` moves all to the same value of x, or hides all for null. */
  function crosshair() {
    const charts = new Set();
    return { charts, show: (at) => charts.forEach((move) => move(at)) };
  }

  /** Lets pointer and arrow keys move a crosshair over a plot. `places` are the values of x where it may stop. */
  function follow(area, places, cross, name) {
    const { plot } = area;
    const nearest = (at) => {
      let best = 0;
      places.forEach((place, index) => {
        if (Math.abs(area.across(place) - at) < Math.abs(area.across(places[best]) - at)) best = index;
      });
      return best;
    };
    let now = null;
    const move = (index) => {
      now = index;
      cross.show(places[index]);
    };
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("aria-label", `${name}. Arrow keys read values.`);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      move(nearest(((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width));
    });
    plot.addEventListener("pointerleave", () => cross.show(null));
    plot.addEventListener("blur", () => cross.show(null));
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      move(Math.min(Math.max(now === null ? (by > 0 ? 0 : places.length - 1) : now + by, 0), places.length - 1));
    });
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
           ground, path, stretches, responsive, crosshair, follow, hair };
})());
