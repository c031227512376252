// Keeps the marked parts of a page up to date. Pages work without it.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const button = document.getElementById("pause");
  if (!button || !document.querySelector("[data-live]")) return;
  let paused = false;

  const refresh = async () => {
    if (paused || document.hidden) return;
    let text;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      text = await answer.text();
    } catch {
      return; // The daemon may be restarting; the next round tries again.
    }
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const found = fresh.getElementById(old.id);
      // What the keyboard is in is not replaced under the reader's hands.
      if (found && !old.contains(document.activeElement)) old.replaceWith(found);
    }
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
  });
  setInterval(refresh, EVERY_MS);
})();
