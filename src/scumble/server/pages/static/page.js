// Completion in the question box, and buttons that put text into it. Without it the page still asks.
(function () {
  "use strict";
  const box = document.getElementById("sql");
  const list = document.getElementById("complete");
  if (!box || !list) return;
  const words = JSON.parse(box.dataset.words || "[]");
  let chosen = -1;

  function changed() {
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function current() {
    const before = box.value.slice(0, box.selectionStart);
    const found = before.match(/'[^']*$|[\w]+$/);
    return found ? found[0] : "";
  }

  function close() {
    list.hidden = true;
    chosen = -1;
    box.removeAttribute("aria-activedescendant");
  }

  function put(text, replaced) {
    const start = box.selectionStart - replaced;
    box.setRangeText(text, start, box.selectionEnd, "end");
    close();
    box.focus();
    changed();
  }

  function mark(place) {
    const items = list.children;
    chosen = (place + items.length) % items.length;
    for (let at = 0; at < items.length; at++) {
      items[at].setAttribute("aria-selected", at === chosen ? "true" : "false");
    }
    box.setAttribute("aria-activedescendant", items[chosen].id);
  }

  function suggest() {
    const word = current();
    const lower = word.toLowerCase();
    const found = word.length < 1 ? [] : words
      .filter((each) => each.toLowerCase().startsWith(lower) && each !== word).slice(0, 8);
    list.replaceChildren();
    found.forEach(function (each, at) {
      const item = document.createElement("li");
      item.id = "complete-" + at;
      item.setAttribute("role", "option");
      item.textContent = each;
      item.addEventListener("mousedown", function (event) {
        event.preventDefault();
        put(each, current().length);
      });
      list.appendChild(item);
    });
    list.hidden = found.length === 0;
    chosen = -1;
  }

  box.addEventListener("input", function (event) { if (event.isTrusted) suggest(); });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", function (event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      box.form.requestSubmit();
    }
    if (list.hidden) return;
    if (event.key === "ArrowDown") { event.preventDefault(); mark(chosen + 1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); mark(chosen - 1); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      event.preventDefault();
      put(list.children[chosen].textContent, current().length);
    }
  });
  document.addEventListener("click", function (event) {
    const example = event.target.closest("[data-sql]");
    if (example) {
      event.preventDefault();
      box.value = example.dataset.sql;
      box.focus();
      changed();
    }
    const value = event.target.closest("[data-insert]");
    if (value) put(value.dataset.insert, 0);
  });
})();
