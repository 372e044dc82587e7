// Sending a table, with its progress.
(function () {
  "use strict";
  const form = document.getElementById("upload");
  if (!form) return;
  const file = document.getElementById("file");
  const sent = document.getElementById("sent");
  const problem = document.getElementById("upload-problem");

  function failed(words) {
    problem.textContent = words;
    problem.hidden = false;
    sent.hidden = true;
    form.querySelector("button").disabled = false;
  }

  form.addEventListener("submit", function (event) {
    event.preventDefault();
    problem.hidden = true;
    const table = file.files[0];
    if (table.size > Number(form.dataset.limit)) {
      failed("The file is larger than the server takes.");
      return;
    }
    const request = new XMLHttpRequest();
    request.open("POST", "/publish/upload?name=" + encodeURIComponent(table.name));
    request.setRequestHeader("X-CSRF-Token", form.dataset.csrf);
    request.setRequestHeader("Accept", "application/problem+json");
    request.upload.addEventListener("progress", function (change) {
      sent.value = change.loaded / Math.max(change.total, 1);
    });
    request.addEventListener("load", function () {
      const where = request.getResponseHeader("X-Location");
      if (request.status === 200 && where) { window.location.assign(where); return; }
      let words = "The server refused the table.";
      try { words = JSON.parse(request.responseText).detail; } catch (error) { /* not from us */ }
      failed(words);
    });
    request.addEventListener("error", function () { failed("The connection was lost. Try again."); });
    sent.value = 0;
    sent.hidden = false;
    form.querySelector("button").disabled = true;
    request.send(table);
  });
})();

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
    const inText = before.split("'").length % 2 === 0; // an odd number of quotes: one is open
    const found = before.match(inText ? /'[^']*$/ : /\w+$/);
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
