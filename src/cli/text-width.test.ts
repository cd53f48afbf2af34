// Goal: columns of a table stand below each other in a terminal, whatever the alphabet of a name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { styleText } from "node:util";
import { textTable } from "./terminal-text.ts";
import { cutText, padEnd, padStart, widthOf } from "./text-width.ts";

test("East Asian characters and emoji take two columns, marks and colours none", () => {
  const widths: readonly (readonly [string, number])[] = [
    ["users", 5],
    ["größe", 5],
    ["点击次数-カウント", 17],
    ["한국어", 6],
    ["ｶﾅ", 2], // half-width
    ["e\u0301", 1],
    ["👩‍💻🚀", 4],
    ["❤️", 2],
    ["━╸─…×", 5],
    [styleText("red", "点", { validateStream: false }), 2],
    ["", 0],
  ];
  for (const [text, width] of widths) assert.equal(widthOf(text), width, text);
});

test("texts are filled up and cut by columns", () => {
  assert.deepEqual([padEnd("点", 4), padStart("点", 4), padEnd("点点", 3)], ["点  ", "  点", "点点"]);
  assert.deepEqual(
    [5, 4, 3, 9].map((columns) => cutText("点击abc", columns)),
    ["点击…", "点…", "点…", "点击abc"],
  );
});

test("columns of a table with East Asian names are aligned", () => {
  const rows = [
    ["点击", "1"],
    ["users", "22"],
  ];
  const table = textTable({ head: ["name", "n"], rows, rightAligned: new Set(["n"]) });
  assert.equal(table, "name    n\n点击    1\nusers  22");
});
