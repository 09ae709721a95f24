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
  const times = call.times > 1 ? ` × ${call.times}` : "";
  const words = () => `${call.open ? "▾" : "▸"} ${label(span)}${times}  ${duration(span.end - span.start)}`;
  const head = make("button", { type: "button" });
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
    head.textContent = words();
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
  const button = make("button", { type: "button", textContent: label(span) + (call.times > 1 ? ` × ${call.times}` : ""), className: (call.main ? "" : "small") + (span.failed ? " failed" : "") });
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
