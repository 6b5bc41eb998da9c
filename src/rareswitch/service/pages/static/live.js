// Keeps a page current: when the study's chains grow, it fetches the page and replaces <main>.
// Without JavaScript the page is complete; reload it for news.

const QUIET = 1000; // milliseconds between two replacements, at least
const MESSAGE = ":scope > .said[role]"; // the answer to a form, which stays until the person leaves
let waiting = 0;
let behind = false;

function isInUse(main) {
  const active = document.activeElement;
  if (main.contains(active) && active.matches("input, select, textarea, button")) return true;
  return [...main.querySelectorAll("input:not([type=hidden]), textarea")].some((field) =>
    field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
}

async function refresh() {
  waiting = 0;
  const main = document.getElementById("main");
  if (document.hidden || isInUse(main)) {
    behind = true;
    return;
  }
  behind = false;
  const answer = await fetch(location, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("main");
  if (!fresh || !fresh.dataset.live || isInUse(main)) return;
  fresh.querySelectorAll(MESSAGE).forEach((message) => message.remove()); // for another page
  for (const message of [...main.querySelectorAll(MESSAGE)].reverse()) {
    message.style.animation = "none"; // it has appeared already
    fresh.prepend(message);
  }
  for (const open of main.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`details[id="${CSS.escape(open.id)}"]`)?.setAttribute("open", "");
  }
  const before = main.querySelector(".lead")?.textContent;
  const focused = document.activeElement?.closest("#main [id]")?.id;
  main.replaceWith(document.adoptNode(fresh));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new Event("replaced"));
  const lead = fresh.querySelector(".lead")?.textContent;
  if (lead && lead !== before) document.getElementById("announced").textContent = lead;
}

function schedule() {
  if (!waiting) waiting = setTimeout(() => refresh().catch(() => { behind = true; }), QUIET);
}

function listen(address) {
  let known = null;
  const source = new EventSource(address);
  source.addEventListener("heads", (event) => {
    if (known !== null && event.data !== known) schedule();
    known = event.data;
  });
  addEventListener("pagehide", () => source.close());
}

const address = document.getElementById("main")?.dataset.live;
if (address && "EventSource" in window) {
  listen(address);
  document.addEventListener("visibilitychange", () => { if (behind && !document.hidden) schedule(); });
  document.addEventListener("focusout", () => { if (behind) schedule(); });
}
