"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const root = document.documentElement;

  const theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("change", (event) => {
    if (event.target.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = event.target.value;
  });

  const specs = read("specs");
  const drawn = Object.keys(specs).map((name) =>
    vegaEmbed("#chart-" + name, specs[name], { actions: false, renderer: "svg", tooltip: { theme: "page" } }).then(
      (made) => {
        const svg = made.view.container().querySelector("svg");
        svg.setAttribute("aria-hidden", "true");
        return made.view;
      },
    ),
  );
  Promise.all(drawn).then((views) => {
    root.dataset.drawn = String(views.length);
    const resize = () => views.forEach((view) => view.resize().runAsync());
    window.addEventListener("beforeprint", () => window.dispatchEvent(new Event("resize")));
    document.querySelectorAll("details").forEach((d) => d.addEventListener("toggle", resize));
  });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));

  const box = document.querySelector(".replay");
  if (!box) return;
  const told = read("frames");
  const frames = told.frames;
  const svg = box.querySelector("svg.net");
  const moves = svg.querySelector(".moves");
  const part = (name) => box.querySelector("[data-part='" + name + "']");
  const range = part("range");
  const play = part("play");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const LAST = frames.length;
  let at = 0;
  let timer = 0;
  let motion = 0;

  const spot = (n) => told.spots[n];
  const make = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const line = (move, way, age) => {
    const [a, b] = [spot(move[0]), spot(move[1])];
    const aside = way === "up" ? 2.5 : -2.5;
    const ends = { x1: a[0] + aside, y1: a[1], x2: b[0] + aside, y2: b[1] };
    return make("line", { ...ends, class: "r-" + way + age });
  };
  const show = (n, moving) => {
    at = Math.max(0, Math.min(LAST, n));
    cancelAnimationFrame(motion);
    moves.replaceChildren();
    const have = new Set();
    const spoke = new Set();
    frames.slice(0, at).forEach((frame, i) => {
      const now = i === at - 1;
      frame.moves.forEach((move) => {
        if (frame.way === "up") spoke.add(move[0]);
        moves.append(line(move, frame.way, now ? "" : " r-was"));
      });
      frame.reached.forEach((s) => have.add(s));
    });
    svg.querySelectorAll("[data-spot]").forEach((node) => {
      const n = Number(node.dataset.spot);
      node.classList.toggle("r-have", have.has(n));
      node.classList.toggle("r-spoke", spoke.has(n));
    });
    range.value = String(at);
    part("back").disabled = part("first").disabled = at === 0;
    part("next").disabled = at === LAST;
    const frame = frames[at - 1];
    range.setAttribute("aria-valuetext", frame ? "step " + at + " of " + LAST + ", " + frame.at : "before the first copy");
    part("when").textContent = frame ? "Step " + at + " of " + LAST + ", " + frame.at : "Before the first copy leaves";
    part("text").textContent = frame ? frame.text : "the source holds the packet";
    part("tally").textContent = frame ? frame.tally : "";
    if (frame && moving && !still.matches) fly(frame);
  };
  const fly = (frame) => {
    const dots = frame.moves.map((move) => {
      const dot = make("circle", { r: 5, class: "r-dot", fill: frame.way === "up" ? "var(--accent)" : "var(--down)" });
      moves.append(dot);
      return [dot, spot(move[0]), spot(move[1])];
    });
    const began = performance.now();
    const tick = (now) => {
      const share = Math.min(1, (now - began) / 600);
      dots.forEach(([dot, a, b]) => {
        dot.setAttribute("cx", a[0] + (b[0] - a[0]) * share);
        dot.setAttribute("cy", a[1] + (b[1] - a[1]) * share);
      });
      if (share < 1) motion = requestAnimationFrame(tick);
      else dots.forEach(([dot]) => dot.remove());
    };
    motion = requestAnimationFrame(tick);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const go = (n, moving) => {
    stop();
    show(n, moving);
  };
  part("first").addEventListener("click", () => go(0, false));
  part("back").addEventListener("click", () => go(at - 1, false));
  part("next").addEventListener("click", () => go(at + 1, true));
  range.addEventListener("input", () => go(Number(range.value), false));
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (at === LAST) show(0, false);
    play.textContent = "Pause";
    const step = () => {
      show(at + 1, true);
      if (at === LAST) stop();
    };
    timer = setInterval(step, 900);
    step();
  });
  window.addEventListener("beforeprint", () => go(LAST, false));
  show(0, false);
  root.dataset.replay = String(LAST);
})();
