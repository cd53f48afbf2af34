// How single values are read: numbers, sizes, times, switches.

import assert from "node:assert/strict";
import { test } from "node:test";
import { byteSize, DURATION_MS_MAX, hostName, milliseconds, optional, percent, type ValueKind, wholeNumber } from "./value-kind.ts";

function read<T>(kind: ValueKind<T>, value: unknown): T | "refused" {
  const accepted = kind.read(value);
  return accepted === undefined ? "refused" : accepted.value;
}

test("reads whole numbers from numbers and from text, both bounds included", () => {
  const kind = wholeNumber({ min: 1, max: 65_535 }, "port");
  for (const [value, expected] of [
    [1, 1],
    ["65535", 65_535],
    ["007", 7],
  ] as const)
    assert.equal(read(kind, value), expected);
  for (const value of [0, "65536", 1.5, "1.5", "0x10", "1e3", "-1", "", "eight", Number.NaN, true, null, [80]]) {
    assert.equal(read(kind, value), "refused", JSON.stringify(value));
  }
});

test("refuses a duration that a timer of Node could not wait for", () => {
  assert.equal(read(milliseconds(0), DURATION_MS_MAX), DURATION_MS_MAX);
  assert.equal(read(milliseconds(0), DURATION_MS_MAX + 1), "refused");
});

test("reads percentages with decimals, even as tiny as a number's own text may be", () => {
  assert.equal(read(percent(), "0.5"), 0.5);
  assert.equal(read(percent(), String(1e-7)), 1e-7);
  assert.equal(read(percent(), 100), 100);
  assert.equal(read(percent(), "100.1"), "refused");
  assert.equal(read(percent(), "5%"), "refused");
});

test("reads sizes in bytes and in binary units", () => {
  const kind = byteSize({ min: 1024 });
  assert.equal(read(kind, "1024"), 1024);
  assert.equal(read(kind, "1.5KiB"), 1536);
  assert.equal(read(kind, "2 gib"), 2 ** 31);
  for (const value of ["1023", "1KB", "MiB", "1.0001KiB", "9999999TiB"]) assert.equal(read(kind, value), "refused", value);
});

test("reads addresses and host names, and takes the brackets off", () => {
  for (const host of ["127.0.0.1", "::1", "0.0.0.0", "localhost", "ps-0.ps_headless.default.svc", "a"])
    assert.equal(read(hostName(), host), host);
  assert.equal(read(hostName(), "[::1]"), "::1");
  for (const host of ["tcp://192.0.2.1", "192.0.2.1:80", "300.0.0.1", "10.0.0", "a b", "*", "-a"])
    assert.equal(read(hostName(), host), "refused", host);
});

test("reads the word none as no value, in an optional kind only", () => {
  const kind = wholeNumber({ min: 0, max: 9 }, "rank");
  assert.equal(read(optional(kind), "none"), undefined);
  assert.equal(read(optional(kind), "3"), 3);
  assert.equal(read(kind, "none"), "refused");
});

test("a time has a unit, or is in milliseconds", () => {
  const kind = milliseconds(100);
  for (const [given, expected] of [
    ["60s", 60_000],
    ["5min", 300_000],
    ["1.5h", 5_400_000],
    ["250ms", 250],
    ["250", 250],
    [250, 250],
  ] as const)
    assert.equal(kind.read(given)?.value, expected, String(given));
  for (const given of ["", "60 s", "1d", "-5s", "99ms", "1.5", 99, Number.NaN, null, "s"])
    assert.equal(kind.read(given), undefined, String(given));
});
