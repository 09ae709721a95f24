"use strict";
// What the story holds, unpacked: one object a span.
const data = JSON.parse(document.getElementById("data").textContent);
const text = i => (i < 0 ? null : data.texts[i]);
const spans = data.spans.map(([lane, parent, start, end, name, title, category, failed, open, detail, facts], index) => ({
  index, lane, parent, start, end, open: open === 1, detail,
  name: text(name), title: text(title), category: data.categories[category].id, failed: text(failed),
  facts: facts.map(([a, b]) => [text(a), text(b)]), below: [],
}));
for (const span of spans) if (span.parent >= 0) spans[span.parent].below.push(span);

const byId = id => document.getElementById(id);
const make = (tag, props = {}, ...inner) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...inner.filter(part => part !== null));
  return node;
};
const style = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const duration = ns => {
  const [value, unit] = ns < 1e3 ? [ns, "ns"] : ns < 1e6 ? [ns / 1e3, "µs"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return (unit === "ns" ? value : value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0)) + " " + unit;
};
const label = span => span.title ?? span.name;

// ── Lanes: within one, what is nested or at the same time stands in rows of its own.
const ROW = 17, GAP = 3, HEAD = 26, SIDE = 92;
const lanes = data.lanes.map(name => ({ name, rows: [], spans: [] }));
for (const span of spans) {
  const { rows, spans: own } = lanes[span.lane];
  const outer = span.parent >= 0 && spans[span.parent].lane === span.lane ? spans[span.parent].row + 1 : 0;
  let row = outer;
  while (rows[row] > span.start) row++;
  rows[row] = Math.max(span.end, span.start + 1);
  span.row = row;
  own.push(span);
}
let height = HEAD;
for (const lane of lanes) {
  lane.top = height;
  lane.height = Math.max(1, lane.rows.length) * ROW + 10;
  height += lane.height;
}

const first = 0, last = Math.max(1, ...spans.map(span => span.end));
const view = { from: first, to: last };
let selected = null, hits = new Set();
const canvas = byId("lanes"), pen = canvas.getContext("2d");
let colours = {};
const readColours = () => {
  for (const name of ["paper", "raised", "ink", "soft", "line", "mark", "bad", ...data.categories.map(c => c.id)])
    colours[name] = style(name);
};
let width = 0;
const x = time => SIDE + (time - view.from) / (view.to - view.from) * (width - SIDE);
const timeAt = at => view.from + (at - SIDE) / (width - SIDE) * (view.to - view.from);

let waiting = false;
const redraw = () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
};
function resize() {
  const scale = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  redraw();
}
function draw() {
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, width, height);
  ruler();
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  lanes.forEach((lane, index) => {
    if (index % 2 === 0) {
      pen.fillStyle = colours.raised;
      pen.fillRect(0, lane.top, width, lane.height);
    }
    // What would be narrower than a pixel is drawn once for all in its row and pixel.
    const drawn = [];
    for (const span of lane.spans) {
      if (span.end < view.from || span.start > view.to) continue;
      const left = Math.max(SIDE, x(span.start)), right = Math.min(width, x(span.end));
      const wide = Math.max(right - left, span.end === span.start ? 3 : 1);
      if (wide <= 1 && drawn[span.row] >= left && !hits.has(span) && span !== selected) continue;
      drawn[span.row] = left + 1;
      block(lane, span, left, wide);
    }
  });
  pen.fillStyle = colours.paper;
  for (const [index, lane] of lanes.entries()) {
    pen.fillStyle = index % 2 === 0 ? colours.raised : colours.paper;
    pen.fillRect(0, lane.top, SIDE, lane.height);
    pen.fillStyle = colours.soft;
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillText(lane.name, 10, lane.top + 5 + ROW / 2);
  }
  if (selected) links(selected);
}
function block(lane, span, left, wide) {
  const top = lane.top + 5 + span.row * ROW, tall = ROW - GAP;
  pen.globalAlpha = hits.size && !hits.has(span) ? 0.25 : 1;
  pen.fillStyle = span.failed ? colours.bad : colours[span.category];
  if (wide < 4 && span !== selected) {
    pen.fillRect(left, top, wide, tall);
    pen.globalAlpha = 1;
    return;
  }
  pen.beginPath();
  pen.roundRect(left, top, wide, tall, Math.min(3, wide / 2));
  pen.fill();
  if (span === selected) {
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2;
    pen.stroke();
  }
  if (wide > 34) {
    pen.save();
    pen.beginPath();
    pen.rect(left + 4, top, wide - 8, tall);
    pen.clip();
    const light = span.category === "waiting" || span.category === "other";
    pen.fillStyle = light ? colours.ink : "#fff";
    pen.fillText(label(span), left + 5, top + tall / 2 + 0.5);
    pen.restore();
  }
  pen.globalAlpha = 1;
}
function ruler() {
  const rough = (view.to - view.from) / Math.max(2, (width - SIDE) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    pen.fillStyle = colours.line;
    pen.fillRect(x(at), HEAD - 6, 1, height);
    pen.fillStyle = colours.soft;
    pen.fillText(tick(at, step), x(at) + 4, HEAD / 2);
  }
}
// A time with as many digits as its neighbours need to differ.
function tick(at, step) {
  const [unit, size] = step >= 1e6 || at >= 1e8 ? ["ms", 1e6] : step >= 1e3 || at >= 1e5 ? ["µs", 1e3] : ["ns", 1];
  return (at / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size)))) + " " + unit;
}
// From what was done for the selected step in other lanes.
function links(span) {
  pen.strokeStyle = colours.mark;
  pen.lineWidth = 1.5;
  const centre = s => lanes[s.lane].top + 5 + s.row * ROW + (ROW - GAP) / 2;
  const across = span.below.filter(inner => inner.lane !== span.lane).map(inner => [span, inner]);
  if (span.parent >= 0 && spans[span.parent].lane !== span.lane) across.push([spans[span.parent], span]);
  for (const [from, to] of across) {
    const at = x(to.start);
    if (at < SIDE || at > width) continue;
    pen.beginPath();
    pen.moveTo(at, centre(from));
    pen.lineTo(at, centre(to));
    pen.stroke();
  }
}
function under(event) {
  const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const lane = lanes.find(lane => py >= lane.top && py < lane.top + lane.height);
  if (!lane || px < SIDE) return null;
  const row = Math.floor((py - lane.top - 5) / ROW);
  let best = null, least = 5;
  for (const span of lane.spans) {
    if (span.row !== row || span.end < view.from || span.start > view.to) continue;
    const left = x(span.start), right = Math.max(x(span.end), left + 3);
    const away = px < left ? left - px : px > right ? px - right : 0;
    if (away < least) [best, least] = [span, away];
  }
  return best;
}
function zoom(factor, around) {
  const least = 200, most = (last - first) * 1.1;
  const span = Math.min(most, Math.max(least, (view.to - view.from) * factor));
  const share = (around - view.from) / (view.to - view.from);
  view.from = around - span * share;
  view.to = view.from + span;
  redraw();
}
function move(by) {
  view.from += by;
  view.to += by;
  redraw();
}
function fit(span) {
  const margin = Math.max(100, (span.end - span.start) * 0.04);
  view.from = span.start - margin;
  view.to = span.end + margin;
  redraw();
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const around = timeAt(event.clientX - canvas.getBoundingClientRect().left);
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    move((event.deltaX || event.deltaY) / width * (view.to - view.from));
  } else zoom(Math.exp(event.deltaY / 400), around);
}, { passive: false });
let drag = null;
canvas.addEventListener("pointerdown", event => {
  drag = { at: event.clientX, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", event => {
  if (drag) {
    const by = event.clientX - drag.at;
    if (Math.abs(by) > 3) drag.moved = true;
    if (drag.moved) {
      move(-by / (width - SIDE) * (view.to - view.from));
      drag.at = event.clientX;
    }
    return;
  }
  tip(event, under(event));
});
canvas.addEventListener("pointerup", event => {
  const span = drag && !drag.moved ? under(event) : null;
  drag = null;
  if (span) select(span);
});
canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
canvas.addEventListener("dblclick", event => {
  const span = under(event);
  if (span) fit(span);
});
canvas.addEventListener("keydown", event => {
  const middle = (view.from + view.to) / 2, part = (view.to - view.from) / 8;
  const act = {
    "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1.4, middle),
    ArrowLeft: () => move(-part), ArrowRight: () => move(part),
    0: () => { [view.from, view.to] = [first, last]; redraw(); },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});
function tip(event, span) {
  const node = byId("tip");
  node.hidden = !span;
  if (!span) return;
  const facts = span.facts.slice(0, 6).map(([name, value]) => `${name} ${value}`).join(", ");
  node.replaceChildren(
    make("b", { textContent: label(span) }), span.title && span.title !== span.name ? make("div", { className: "soft value", textContent: span.name }) : "",
    make("div", { textContent: `${duration(span.end - span.start)} from ${duration(span.start)} on` }),
    facts ? make("div", { className: "value", textContent: facts }) : "",
    span.failed ? make("div", { className: "bad", textContent: "failed: " + span.failed }) : "");
  const box = canvas.parentElement.getBoundingClientRect();
  const left = event.clientX - box.left + 14;
  node.style.left = Math.min(left, box.width - node.offsetWidth - 24) + "px";
  node.style.top = event.clientY - box.top + 14 + "px";
}
