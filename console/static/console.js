// What works only with a script: the browser's time zone, times that go on while a page is open, copying, menus that
// close, keys, and the continuation of a long action. Every page works without.
"use strict";

const root = document.documentElement;
root.dataset.scripts = "yes"; // the style sheet then shows what needs them

// zone tells the server the time zone in which it writes local times. The next page has them.
function zone() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!name || document.cookie.split("; ").includes(`dbq_zone=${name}`)) return;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `dbq_zone=${name}; path=${root.dataset.path}; max-age=31536000; samesite=strict${secure}`;
}

// age writes a duration as the server does.
function age(seconds) {
  const both = (large, unit, small, of) => `${large} ${unit}${small ? ` ${small} ${of}` : ""}`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  if (seconds < 120) return `${seconds} s`;
  if (minutes < 120) return `${minutes} min`;
  return both(hours, "h", minutes % 60, "min");
}

// The server's clock may differ from the browser's.
const read = document.querySelector("#read time");
let skew = read ? Date.parse(read.dateTime) - Date.now() : 0;

// relativeTimes rewrites the times that the server wrote as a distance from now.
function relativeTimes() {
  for (const t of document.querySelectorAll("time[data-relative]")) {
    const seconds = Math.trunc((Date.now() + skew - Date.parse(t.dateTime)) / 1000);
    if (Math.abs(seconds) >= 24 * 3600) continue;
    const text = seconds > 0 ? `${age(seconds)} ago` : seconds < 0 ? `in ${age(-seconds)}` : "now";
    if (t.textContent !== text) t.textContent = text;
  }
}

// refreshes reports whether the page has a part that refreshes itself.
const refreshes = () => document.querySelector("main [hx-get]") !== null;

let stopped = false;
function live() {
  const shown = document.getElementById("read"), stop = document.getElementById("stop");
  if (!shown || !stop) return;
  stop.hidden = !refreshes();
  shown.classList.toggle("off", stopped || !refreshes());
  shown.classList.toggle("stopped", stopped);
  stop.setAttribute("aria-pressed", String(stopped));
}

function start() {
  zone();
  live();
  // On a phone, the item of this page may be out of sight.
  for (const item of document.querySelectorAll(".tabs [aria-current], .states [aria-current]")) {
    const bar = item.parentElement, at = item.getBoundingClientRect();
    bar.scrollLeft += at.left - bar.getBoundingClientRect().left - (bar.clientWidth - at.width) / 2;
  }
  setInterval(relativeTimes, 5000);
  const more = document.querySelector("form[data-continue]");
  if (more) setTimeout(() => more.requestSubmit(), 300);
}

// closeMenus closes the menus, except for the one that contains an element.
function closeMenus(but) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(but)) menu.open = false;
}

async function copy(button) {
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const title = button.title;
  const text = button.lastChild, before = text.textContent;
  button.title = text.textContent = "Copied";
  button.setAttribute("role", "status");
  setTimeout(() => { button.title = title; text.textContent = before; button.removeAttribute("role"); }, 2000);
}

// scope says to which tasks the actions below a list apply: to those that were chosen or, without any, to all. It hides
// actions that no chosen task allows.
function scope() {
  const shown = document.getElementById("scope"), all = document.getElementById("all");
  if (!shown || !all) return;
  const boxes = [...document.querySelectorAll('input[name="task"]')], chosen = boxes.filter((box) => box.checked);
  const n = chosen.length, can = new Set(chosen.flatMap((box) => box.dataset.can.split(" ")));
  for (const action of document.querySelectorAll('#act [name="event"]')) {
    action.hidden = n > 0 && !can.has(action.value);
  }
  shown.textContent = n === 0 ? shown.dataset.all : `${n} chosen ${n === 1 ? "task" : "tasks"}:`;
  all.checked = n > 0 && n === boxes.length;
  all.indeterminate = n > 0 && n < boxes.length;
}

document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.id === "all") {
    for (const box of document.querySelectorAll('input[name="task"]')) box.checked = target.checked;
  }
  if (target.id === "all" || target.name === "task") scope();
});

document.addEventListener("click", (event) => {
  closeMenus(event.target);
  const button = event.target.closest("[data-copy], [data-close], #stop");
  if (!button) return;
  if (button.dataset.copy) copy(button).catch(() => {}); // the browser may refuse it
  else if (button.id === "stop") { stopped = !stopped; live(); }
  else { event.preventDefault(); button.parentElement.remove(); }
});

// pick chooses the task of the row that has the focus, or no longer.
function pick() {
  const box = document.activeElement?.closest("tr")?.querySelector('input[name="task"]');
  if (box) box.click();
}

let row = -1;
function move(by) {
  const rows = document.querySelectorAll(".rows tbody tr");
  if (rows.length === 0) return;
  row = Math.min(Math.max(row + by, 0), rows.length - 1);
  const link = rows[row].querySelector("a");
  if (link) link.focus();
}

// queues goes to the first queue of the overview, here or on its page.
function queues() {
  const first = document.querySelector("[data-queues] tbody a"), overview = document.getElementById("trouble");
  if (first) { row = 0; first.focus(); }
  else if (overview) location.href = `${overview.href}#queues`;
}

function search(event) {
  const field = document.querySelector("[data-search]");
  if (field) { event.preventDefault(); field.focus(); }
}

let chord = 0; // when g was pressed
function key(event) {
  if (event.key === "Escape") {
    const menu = event.target.closest("details.menu[open]");
    closeMenus(null);
    if (menu) menu.querySelector("summary").focus();
    return;
  }
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) { search(event); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || root.dataset.shortcuts === "off") return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
  const went = Date.now() - chord < 1500;
  chord = 0;
  if (went) {
    if (event.key === "q") { queues(); return; }
    const link = document.querySelector(`header a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  switch (event.key) {
    case "/": search(event); break;
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": pick(); break;
    case "g": chord = Date.now(); break;
    case "?": document.getElementById("keys").showModal(); break;
  }
}

// frame shows what a refreshed page reports outside of its refreshed part: the trouble, the queues, and when it was
// read. It returns false if it has left a part as it was, since the focus is in it or its menu is open.
function frame(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const icon = page.getElementById("icon");
  if (!icon) return true;
  document.title = page.title;
  const mine = document.getElementById("icon");
  if (mine.getAttribute("href") !== icon.getAttribute("href")) mine.setAttribute("href", icon.getAttribute("href"));
  const now = page.querySelector("#read time");
  if (now) skew = Date.parse(now.dateTime) - Date.now();
  let whole = true;
  for (const part of ["#read", "nav.pages"]) {
    const fresh = page.querySelector(part), shown = document.querySelector(part);
    if (!fresh || !shown || shown.innerHTML === fresh.innerHTML) continue;
    if (shown.contains(document.activeElement) || shown.querySelector(":popover-open")) whole = false;
    else shown.replaceChildren(...fresh.childNodes);
  }
  return whole;
}

// A page that nobody sees, or that was stopped, does not refresh itself.
document.addEventListener("htmx:before:request", (event) => {
  if (!document.hidden && !stopped) return;
  event.preventDefault();
  event.detail.ctx.skipped = true;
});

// A refresh sends the tag of what it got before: if nothing has changed, the answer has no content.
const tags = new Map(); // by address
document.addEventListener("htmx:config:request", (event) => {
  const { request } = event.detail.ctx, tag = tags.get(request.action);
  if (tag && request.method.toUpperCase() === "GET") request.headers["If-None-Match"] = tag;
});

// unchanged shows that what the page shows was read again.
function unchanged() {
  const time = document.querySelector("#read time");
  if (!time) return;
  const now = new Date(Date.now() + skew);
  time.dateTime = now.toISOString();
  const utc = / UTC$/.test(time.textContent);
  time.textContent = now.toLocaleTimeString("en-GB", utc ? { timeZone: "UTC" } : {}) + (utc ? " UTC" : "");
}

// A refresh that fails leaves what the page shows, and says so.
document.addEventListener("htmx:finally:request", (event) => {
  const { request, response, skipped, text } = event.detail.ctx;
  if (skipped) return;
  const ended = Boolean(response && response.raw.status === 401), same = Boolean(response && response.raw.status === 304);
  const ok = same || Boolean(response && response.raw.ok);
  document.getElementById("ended").hidden = !ended;
  document.getElementById("stale").hidden = ended || ok;
  if (same) unchanged();
  else if (ok && text) {
    tags.set(request.action, frame(text) && response.raw.headers.get("ETag"));
  }
});

start();
addEventListener("pageshow", scope); // by then, a browser that went back has restored what was chosen
document.addEventListener("keydown", key);
