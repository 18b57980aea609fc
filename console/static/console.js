// What works only with a script: local times, keys, and the continuation of a long action. Every page works without.
"use strict";

function localTimes(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    if (t.dataset.local) continue;
    t.dataset.local = "yes";
    t.textContent = new Date(t.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}

// A refreshed part replaces texts as the server wrote them, so that its times are rewritten.
function start() {
  localTimes(document);
  new MutationObserver(() => localTimes(document)).observe(document.getElementById("main"), {
    childList: true, subtree: true, characterData: true, attributeFilter: ["datetime"],
  });
  const hint = document.querySelector(".keys");
  if (hint) hint.hidden = false;
  const more = document.querySelector("form[data-continue]");
  if (more) setTimeout(() => more.requestSubmit(), 300);
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

let chord = 0; // when g was pressed
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const went = Date.now() - chord < 1500;
  chord = 0;
  if (went) {
    if (event.key === "q") { queues(); return; }
    const link = document.querySelector(`nav.pages a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  switch (event.key) {
    case "/": {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); }
      break;
    }
    case "j": move(1); break;
    case "k": move(-1); break;
    case "g": chord = Date.now(); break;
    case "?": document.getElementById("keys").showModal(); break;
  }
}

// frame shows the trouble that a refreshed page reports outside of its refreshed part.
function frame(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const icon = page.getElementById("icon");
  if (!icon) return;
  document.title = page.title;
  const mine = document.getElementById("icon");
  if (mine.getAttribute("href") !== icon.getAttribute("href")) mine.setAttribute("href", icon.getAttribute("href"));
  const trouble = page.getElementById("trouble"), shown = document.getElementById("trouble");
  if (trouble && shown && shown.textContent !== trouble.textContent) shown.replaceChildren(...trouble.childNodes);
}

// A refresh that fails leaves what the page shows, and says so.
document.addEventListener("htmx:finally:request", (event) => {
  const response = event.detail.ctx.response;
  const ended = Boolean(response && response.raw.status === 401);
  document.getElementById("ended").hidden = !ended;
  document.getElementById("stale").hidden = ended || Boolean(response && response.raw.ok);
  if (response && response.raw.ok && event.detail.ctx.text) frame(event.detail.ctx.text);
});

start();
document.addEventListener("keydown", key);
