// Keys: "/" goes to the search, "g" and a letter to a page, "j" and "k" to the next and previous row.
(() => {
  "use strict";
  let leads = false;
  const isTyping = (target) => target.closest("input, textarea, select");
  const rows = () => [...document.querySelectorAll("tbody tr th a")];

  function move(step) {
    const links = rows();
    const at = links.indexOf(document.activeElement);
    const next = links[Math.min(Math.max(at + step, 0), links.length - 1)];
    if (next) next.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const target = leads && document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
    leads = event.key === "g";
    if (target) target.click();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (!search) return;
      event.preventDefault();
      search.focus();
    }
  });

  // A lost stream must not look like a quiet database.
  document.addEventListener("htmx:sse:error", () => document.body.classList.add("cut"));
  document.addEventListener("htmx:sse:after:connection", () => document.body.classList.remove("cut"));
})();
