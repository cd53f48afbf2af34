// Goal: no line is broken inside a word by a terminal that is too narrow for it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { styleText } from "node:util";
import { barText, columnsText, compactNumber, foldLine, percent, textTable } from "./terminal-text.ts";
import { widthOf } from "./text-width.ts";

const LINE = "  The server node id:host-7:1234567,node ip: 127.0.0.1,node port:37849 assign rank id:12";

test("a line that fits stays as it is, also when it fits exactly", () => {
  assert.deepEqual(foldLine(LINE, { columns: LINE.length, indent: 2 }), [LINE]);
});

test("a line that is too long is broken between words and after commas, and goes on further in", () => {
  assert.deepEqual(foldLine(LINE, { columns: 80, indent: 2 }), [
    "  The server node id:host-7:1234567,node ip: 127.0.0.1,node port:37849 assign",
    "    rank id:12",
  ]);
  for (const columns of [20, 40, 60]) {
    const lines = foldLine(LINE, { columns, indent: 2 });
    assert.equal(lines.join(" ").replaceAll(/[ ]+/g, ""), LINE.replaceAll(/[ ]+/g, ""), "nothing is lost");
    for (const line of lines) assert.ok(line.length <= columns || !line.trim().includes(" "), `${columns}: ${line}`);
  }
});

test("colours take no room", () => {
  const coloured = `${styleText("cyan", "[worker/0]", { validateStream: false })} stopped`;
  assert.deepEqual(foldLine(coloured, { columns: 18, indent: 2 }), [coloured]);
});

test("numbers get three digits and a prefix", () => {
  assert.deepEqual([0, 12, 999, 1000, 12_345_678, 999_999].map(compactNumber), ["0 ", "12 ", "999 ", "1.00 k", "12.3 M", "1.00 M"]);
});

test("bars fill by halves and never overflow", () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 1, 2, -1].map((share) => barText(share, 2)),
    ["──", "╸─", "━─", "━━", "━━", "──"],
  );
});

test("columns line up, numbers at their ends", () => {
  assert.deepEqual(
    columnsText([
      ["name", "a"],
      ["x", "123"],
    ]),
    ["name     a", "x      123"],
  );
});

test("a share that nobody knows is a dash", () => {
  assert.deepEqual([percent(0.1234), percent(undefined)], ["12.3 %", "-"]);
});

test("characters of Chinese, and pictures, take two columns, colours and marks none", () => {
  const coloured = styleText("red", "权重", { validateStream: false });
  assert.deepEqual(["abc", "权重", "한글", "ｆ", "é", "e\u0301", "🚀", coloured].map(widthOf), [3, 4, 4, 2, 1, 1, 2, 4]);
});

const TABLE = {
  head: ["name", "what it is", "rows"],
  rows: [
    ["权重", "a tensor, dense", "10"],
    ["users", "a table of many rows, which are read often", "1234567"],
  ],
  rightAligned: new Set(["rows"]),
};

test("columns of a table line up whatever characters are in them", () => {
  assert.deepEqual(textTable(TABLE).split("\n"), [
    "name   what it is                                     rows",
    "权重   a tensor, dense                                  10",
    "users  a table of many rows, which are read often  1234567",
  ]);
});

test("a table that is too wide is broken between words of its widest column; names and numbers stay whole", () => {
  assert.deepEqual(textTable({ ...TABLE, columns: 37 }).split("\n"), [
    "name   what it is                rows",
    "权重   a tensor, dense             10",
    "users  a table of many rows,  1234567",
    "       which are read often",
  ]);
});
