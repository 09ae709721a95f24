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

// ── The story as a tree.
const dot = category => {
  const node = make("span", { className: "dot" });
  node.style.background = `var(--${category})`;
  return node;
};
const rows = new Map();
function told(span) {
  // Steps that are part of the story; what is below the others stands in their place.
  return span.below.flatMap(inner => inner.title || inner.failed ? [inner] : told(inner));
}
function branch(span, depth = 0) {
  const facts = span.facts.map(([name, value]) => `${name} ${value}`).join(", ");
  const bytes = span.detail >= 0 ? make("a", { href: "#span" + span.index, textContent: "bytes" }) : null;
  const time = span.end > span.start ? duration(span.end - span.start) + (span.open ? " …" : "") : "";
  const indent = make("span", { className: "indent" });
  indent.style.width = depth * 13 + "px";
  const row = make("div", { className: "row", tabIndex: 0 },
    make("span", { className: "time", textContent: time }), indent, dot(span.category),
    make("span", { className: "what" }, label(span), facts ? make("span", { className: "soft value", textContent: "  " + facts }) : "",
      span.failed ? make("b", { className: "bad", textContent: "  failed: " + span.failed }) : ""),
    bytes);
  row.addEventListener("click", () => select(span));
  row.addEventListener("dblclick", () => fit(span));
  row.addEventListener("keydown", event => { if (event.key === "Enter") select(span); });
  rows.set(span, row);
  const list = [row];
  let before = null;
  for (const inner of told(span)) {
    const words = inner.below.length ? null : JSON.stringify([label(inner), inner.facts, inner.failed]);
    // Small steps that come again and again are one row.
    if (words && before?.words === words) {
      before.count.textContent = ` × ${++before.times}`;
      rows.set(inner, before.row);
      continue;
    }
    const lines = branch(inner, depth + 1);
    const count = make("span", { className: "soft" });
    lines[0].querySelector(".what").append(count);
    before = { words, times: 1, count, row: lines[0] };
    list.push(...lines);
  }
  return list;
}
function share(span) {
  const sums = new Map();
  const own = s => s.lane < 2;
  const add = s => {
    const inner = s.below.filter(own);
    const time = s.end - s.start - inner.reduce((sum, i) => sum + i.end - i.start, 0);
    sums.set(s.category, (sums.get(s.category) ?? 0) + Math.max(0, time));
    inner.forEach(add);
  };
  add(span);
  const bar = make("div", { className: "bar" });
  for (const { id, text } of data.categories) {
    const time = sums.get(id);
    if (!time) continue;
    const part = make("span", { title: `${text}: ${duration(time)}` });
    part.style.cssText = `background:var(--${id});flex:${time} 0 0`;
    bar.append(part);
  }
  return bar;
}
function storyOf(call) {
  const span = spans[call.span];
  const head = make("button", { type: "button", textContent: `${call.open ? "▾" : "▸"} ${label(span)}  ${duration(span.end - span.start)}` });
  const box = make("div", { className: "call" }, make("h2", {}, head));
  const body = make("div");
  const fill = () => {
    if (body.childElementCount) return;
    const answers = call.answers.map((line, n) => {
      const [, about, rest] = line.match(/^([^:]*:)?(.*)$/s);
      return make("li", { className: n === 0 && span.failed ? "failed" : "" }, make("b", { textContent: about ?? "" }), rest);
    });
    body.append(share(span), make("ul", { className: "answers" }, ...answers), make("div", { className: "tree" }, ...branch(span)));
  };
  const toggle = open => {
    call.open = open;
    head.textContent = `${open ? "▾" : "▸"} ${label(span)}  ${duration(span.end - span.start)}`;
    if (open) fill();
    body.hidden = !open;
  };
  head.addEventListener("click", () => { toggle(!call.open); if (call.open) { fit(span); select(span); } });
  call.toggle = toggle;
  call.box = box;
  toggle(call.main);
  box.append(body);
  return box;
}
function callOf(span) {
  let at = span;
  while (at.parent >= 0 && !data.calls.some(call => call.span === at.index)) at = spans[at.parent];
  return data.calls.find(call => call.span === at.index);
}

// ── The selected step, with its bytes.
function select(span) {
  rows.get(selected)?.classList.remove("now");
  selected = span;
  const call = callOf(span);
  if (call && !call.open) call.toggle(true);
  const row = rows.get(span);
  row?.classList.add("now");
  if (call?.span === span.index) byId("story").scrollTop += call.box.getBoundingClientRect().top - byId("story").getBoundingClientRect().top;
  else if (row) reveal(row);
  if (span.end < view.from || span.start > view.to) fit(call ? spans[call.span] : span);
  history.replaceState(null, "", "#span" + span.index);
  step(span);
  redraw();
}
// Within the story alone: the time line stays where it is.
function reveal(row) {
  const panel = byId("story"), box = panel.getBoundingClientRect(), { top, bottom } = row.getBoundingClientRect();
  if (top < box.top || bottom > box.bottom) panel.scrollTop += top - box.top - box.height / 3;
}
const pairs = list => make("dl", {}, ...list.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })]));
function deep(span, found = []) {
  for (const inner of span.below) {
    if (inner.detail >= 0 && inner.title) found.push(inner);
    if (found.length < 24) deep(inner, found);
  }
  return found;
}
function step(span) {
  const lane = data.lanes[span.lane];
  const times = [["lane", lane], ["from", (span.start / 1e6).toFixed(3) + " ms"], ["time", span.open ? "not ended" : duration(span.end - span.start)]];
  const node = byId("step");
  node.replaceChildren(make("h2", {}, dot(span.category), " " + label(span)));
  if (span.title && span.title !== span.name) node.append(make("p", { className: "value soft", textContent: span.name }));
  if (span.failed) node.append(make("p", { className: "bad", textContent: "failed: " + span.failed }));
  node.append(pairs(times.concat(span.facts)));
  const detail = data.details[span.detail];
  if (detail) {
    node.append(make("h2", { textContent: `${detail.structure}, ${detail.length} bytes` }), pairs(detail.fields));
    const bytes = detail.bytes.match(/.{1,8}/g)?.map((word, n) => (n % 4 === 0 ? `\n${(n * 4).toString(16).padStart(4, "0")}  ` : " ") + word).join("") ?? "";
    node.append(make("div", { className: "hex", textContent: bytes.trim() }));
  }
  const more = deep(span).slice(0, 24);
  if (more.length) {
    const list = more.map(inner => {
      const link = make("a", { href: "#span" + inner.index, textContent: `${label(inner)} (${data.details[inner.detail].structure})` });
      link.addEventListener("click", event => { event.preventDefault(); select(inner); });
      return make("li", {}, link);
    });
    node.append(make("h2", { textContent: "Bytes below this step" }), make("ul", {}, ...list));
  }
}

// ── Translations beside page frames.
function framesOf(call) {
  const { frames } = call, hex = value => (value === null ? "–" : "0x" + value.toString(16));
  const lines = frames.lines.map((line, n) => {
    const same = line.frame !== null && line.entry !== null;
    const verdict = !same ? "" : line.frame === line.entry ? "equal" : "differs";
    return make("tr", {}, ...[String(n), hex(line.address), hex(line.frame), hex(line.entry)].map(textContent => make("td", { textContent })),
      make("td", { textContent: verdict, className: verdict === "differs" ? "bad" : "soft" }));
  });
  const head = ["page", "the program's address", "the guest's page frame", "the card's entry", ""];
  return make("section", {},
    make("h2", { textContent: `Translations of ${label(spans[call.span])}: ${frames.length} bytes at ${hex(frames.address)}, entries of ${frames.page_size} bytes` }),
    make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map(textContent => make("th", { textContent })))), make("tbody", {}, ...lines))));
}

// ── Everything together.
byId("command").textContent = data.command;
byId("about").textContent = `Linux ${data.kernel} · ${spans.length} spans in ${duration(last)}`;
for (const call of data.calls) {
  const span = spans[call.span];
  const button = make("button", { type: "button", textContent: label(span), className: (call.main ? "" : "small") + (span.failed ? " failed" : "") });
  button.addEventListener("click", () => { call.toggle(true); fit(span); select(span); });
  byId("calls").append(button);
  byId("story").append(storyOf(call));
}
const withFrames = data.calls.filter(call => call.frames);
byId("frames").append(...withFrames.filter(call => call.main).map(framesOf), ...withFrames.filter(call => !call.main).map(framesOf));
byId("legend").append(...data.categories.map(({ id, text }) => {
  const mark = make("i");
  mark.style.background = `var(--${id})`;
  return make("span", {}, mark, text);
}));
byId("notes").append(...data.notes.map(note => make("p", { textContent: note })));
byId("find").addEventListener("input", event => {
  const wanted = event.target.value.trim().toLowerCase();
  const fields = span => data.details[span.detail]?.fields.some(([name, value]) => `${name} ${value}`.toLowerCase().includes(wanted));
  const has = span => [span.name, span.title ?? "", ...span.facts.flat()].some(part => part.toLowerCase().includes(wanted)) || fields(span);
  hits = new Set(wanted ? spans.filter(has) : []);
  byId("found").textContent = wanted ? `${hits.size} found` : "";
  redraw();
});
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = name => { document.documentElement.dataset.theme = name; readColours(); redraw(); };
theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
window.addEventListener("resize", resize);
window.addEventListener("hashchange", () => { const span = spans[Number(location.hash.slice(5))]; if (span) select(span); });
resize();
const wanted = spans[Number(location.hash.slice(5))];
const begin = location.hash.startsWith("#span") && wanted ? wanted : spans[(data.calls.find(call => call.main) ?? data.calls[0])?.span];
if (begin) { fit(spans[callOf(begin)?.span] ?? begin); select(begin); }
document.documentElement.dataset.ready = String(spans.length);
