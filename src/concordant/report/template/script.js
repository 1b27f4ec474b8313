"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const byId = (id) => document.getElementById(id);

  // Theme: that of the system until the user switches it.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = byId("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const remember = (value) => { try { localStorage.setItem("concordant-theme", value); } catch { /* from disk */ } };
  const recall = () => { try { return localStorage.getItem("concordant-theme"); } catch { return null; } };
  const nameTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  };
  const known = recall();
  if (known === "dark" || known === "light") root.dataset.theme = known;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // Boxes that scroll to the right say so, and fade at the edge where no scroll bar is visible.
  const hints = new Map();
  const fade = (box) => {
    const bare = box.offsetHeight - box.clientHeight <= 3;
    const beyond = box.scrollWidth - box.clientWidth - Math.abs(box.scrollLeft) > 2;
    box.classList.toggle("more", bare && beyond);
    const hint = hints.get(box);
    if (hint) hint.hidden = box.scrollWidth - box.clientWidth <= 2;
  };
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => fade(entry.target)));
  for (const box of document.querySelectorAll("main .box")) {
    const hint = document.createElement("div");
    hint.className = "hint";
    hint.textContent = "Wider than the screen: scroll sideways →";
    hint.hidden = true;
    box.before(hint);
    hints.set(box, hint);
  }
  for (const box of document.querySelectorAll(".box, .bar nav")) {
    box.addEventListener("scroll", () => fade(box), { passive: true });
    sizes.observe(box);
  }

  // All instances are one tab stop; the arrow keys move between them.
  const links = () => [...document.querySelectorAll("#instances tbody tr:not([hidden]) button[data-instance]")];
  const rove = (to) => {
    const all = links();
    const now = to || all.find((link) => link === document.activeElement) || all[0];
    for (const link of document.querySelectorAll("#instances button[data-instance]")) link.tabIndex = link === now ? 0 : -1;
  };
  document.addEventListener("keydown", (event) => {
    const link = event.target.closest("#instances button[data-instance]");
    if (!link || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = links();
    const at = all.indexOf(link);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[Math.min(Math.max(to, 0), all.length - 1)];
    rove(next);
    next.focus();
  });
  rove();

  // A click on a column head sorts the table: numbers by exact value, texts in natural order.
  const valueOf = (cell) => {
    const exact = cell.dataset.v;
    if (exact !== undefined) return exact === "" ? null : Number(exact);
    return cell.textContent.trim();
  };
  const order = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sortBy = (table, column, head) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const before = head.getAttribute("aria-sort");
    const first = head.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const now = before === first ? other : first;
    const sign = now === "ascending" ? 1 : -1;
    const keyed = rows.map((row, at) => ({ row, at, key: valueOf(row.cells[column]) }));
    keyed.sort((x, y) => {
      // Missing values come last in both directions.
      if (x.key === null || y.key === null) return (x.key === null) - (y.key === null) || x.at - y.at;
      return sign * order(x.key, y.key) || x.at - y.at;
    });
    body.append(...keyed.map((entry) => entry.row));
    for (const cell of table.tHead.rows[0].cells) {
      if (cell.hasAttribute("aria-sort")) cell.setAttribute("aria-sort", "none");
    }
    head.setAttribute("aria-sort", now);
    rove();
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.dataset.first === "never") return;
      const press = document.createElement("button");
      press.type = "button";
      press.append(...head.childNodes);
      head.append(press);
      if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
      press.addEventListener("click", () => sortBy(table, column, head));
    });
  }

  // Search: show the rows that contain every word.
  const stored = byId("instances-data");
  const data = stored ? JSON.parse(stored.textContent) : null;
  for (const input of document.querySelectorAll("input[data-table]")) {
    const table = byId(input.dataset.table);
    const told = byId(input.dataset.told);
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => {
      const link = row.querySelector("button[data-instance]");
      // Items of the detail view are found too.
      const inside = link && data ? data.instances[Number(link.dataset.instance)].places.map((place) => place[0]) : [];
      return [row.textContent, ...inside].join(" ").toLowerCase();
    });
    const find = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, at) => {
        const hit = words.every((word) => texts[at].includes(word));
        row.hidden = !hit;
        shown += hit;
      });
      rove();
      const listed = input.dataset.all ? `${rows.length} of ${input.dataset.all} are listed` : "";
      const found = words.length ? `${shown} of ${rows.length} rows` : listed ? "" : `${rows.length} rows`;
      told.textContent = [found, listed].filter(Boolean).join("; ");
    };
    input.addEventListener("input", find);
    find();
  }

  // Detail view of an instance, built from text nodes only.
  const dialog = byId("look");
  if (!dialog) return;
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined && text !== null) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const isolated = (name, text, className) => {
    const element = make(name, null, className);
    element.append(make("bdi", text, text.length <= 22 ? "short" : "long"));
    return element;
  };
  // Method names may break before their parameters.
  const method = (name, className) => {
    const element = make("th", null, className);
    const at = name.indexOf("(");
    element.append(...(at < 0 ? [name] : [name.slice(0, at), make("wbr"), name.slice(at)]));
    return element;
  };
  const shade = (rank) => (rank ? `hp p${Math.max(1, 10 - Math.floor(2.2 * Math.log2(rank)))}` : "hu");
  const show = (at) => {
    const instance = data.instances[at];
    byId("look-title").replaceChildren(document.createTextNode("Instance "), make("bdi", instance.id));
    byId("look-about").textContent = instance.about;
    const table = make("table", null, "matrix");
    const head = table.createTHead().insertRow();
    const ranges = instance.places.some((place) => place[2] !== null);
    const titles = ["item", "rank", ...(ranges ? ["rank interval"] : []), ...(data.labels ? ["label"] : [])];
    titles.forEach((title) => { const cell = make("th", title); cell.scope = "col"; head.append(cell); });
    data.methods.forEach((name, i) => { const cell = method(name, i ? "" : "sep"); cell.scope = "col"; head.append(cell); });
    const experts = instance.ranks.length ? data.experts : [];
    experts.forEach((name, i) => { const cell = isolated("th", name, i ? "" : "sep"); cell.scope = "col"; head.append(cell); });
    const body = table.createTBody();
    instance.places.forEach((place, i) => {
      const row = body.insertRow();
      const name = isolated("th", place[0]);
      name.scope = "row";
      row.append(name, make("td", place[1]));
      if (ranges) row.append(make("td", place[2] === place[3] ? place[2] : `${place[2]}–${place[3]}`));
      if (data.labels) row.append(make("td", place[4] === null ? "–" : place[4]));
      place[5].forEach((rank, j) => row.append(make("td", rank, `${shade(rank)}${j ? "" : " sep"}`)));
      (instance.ranks[i] || []).forEach((rank, j) => row.append(make("td", rank || "·", `${shade(rank)}${j ? "" : " sep"}`)));
    });
    byId("look-table").replaceChildren(table);
    dialog.showModal();
    byId("look-table").scrollTo(0, 0);
    fade(byId("look-table"));
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("button[data-instance]");
    if (link) show(Number(link.dataset.instance));
    else if (event.target === dialog || event.target.closest("#look-close")) dialog.close();
  });
})();
