// Goal: shares, medians and counts in the report mean what the issue says they mean.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CASES } from "./cases.ts";
import { Meter, together } from "./meter.ts";
import { parseOptions } from "./options.ts";
import { entryOf, formatLine, formatMixes, formatTable, medianFigure } from "./report.ts";
import { median, quantile } from "./statistics.ts";

const MEMORY = { rssServerMb: 100, rssWorkerMb: 80 };

function line(name: string) {
  const benchCase = CASES.find((one) => one.name === name)!;
  return { benchCase, regime: "free", raw: { reqPerSec: 4000, p50Us: 90, p99Us: 200 } } as const;
}

test("compares lone requests by p50, small ones by rate and large ones by bandwidth", () => {
  const ours = { reqPerSec: 3000, p50Us: 100, p99Us: 300 };
  assert.equal(entryOf(line("push-4B-w1"), { ours, memory: MEMORY }).rawShare, 0.9);
  assert.equal(entryOf(line("pull-4B-w64"), { ours, memory: MEMORY }).rawShare, 0.75);
  const large = entryOf(line("push-1MB-w8"), { ours, memory: MEMORY });
  assert.equal(large.rawShare, 0.75);
  assert.equal(large.gbPerSec, 3.1457);
  assert.deepEqual(Object.keys(large), "case regime reqPerSec gbPerSec p50Us p99Us rawShare rssServerMb rssWorkerMb".split(" "));
});

test("takes medians of rounds, and adds up workers", () => {
  const rounds = [1, 9, 5].map((x) => ({ reqPerSec: x, p50Us: 10 * x, p99Us: 100 * x }));
  assert.deepEqual(medianFigure(rounds), { reqPerSec: 5, p50Us: 50, p99Us: 500 });
  assert.deepEqual(together(rounds), { reqPerSec: 15, p50Us: 50, p99Us: 900 });
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.equal(quantile([1, 2, 3, 4], 0.5), 2);
  assert.equal(quantile([1], 0.99), 1);
});

test("counts from a completion to a completion, after the warm-up", () => {
  const meter = new Meter();
  const begin = 1000;
  meter.start({ warmupMs: 0, measureMs: 10 }, begin);
  assert.ok(meter.complete(begin, begin)); // opens the span and is not counted
  for (let i = 1; i < 10; i++) assert.ok(meter.complete(begin + i - 2, begin + i));
  assert.ok(!meter.complete(begin + 8, begin + 10));
  assert.ok(!meter.complete(begin + 9, begin + 11));
  const { reqPerSec, p50Us } = meter.figure();
  assert.ok(Math.abs(reqPerSec - 1000) < 1e-3);
  assert.ok(Math.abs(p50Us - 2000) < 1e-3);
});

test("lines up the table and leaves empty columns out", () => {
  const [head, row, ...rest] = formatTable([line("push-1MB-w8")]).split("\n");
  assert.deepEqual(rest, []);
  assert.equal(head!.length, row!.length);
  assert.match(head!, /raw GB\/s/);
  assert.doesNotMatch(head!, /extra MB/);
});

test("reads case names in any form and names what it does not know", () => {
  assert.deepEqual(parseOptions(["--case", "pull-4B-w1", "push-4B-w1", "--quick"]).caseNames, ["push-4B-w1", "pull-4B-w1"]);
  assert.deepEqual(parseOptions(["--regime", "pinned"]).regimes, ["pinned"]);
  assert.equal(parseOptions([]).caseNames.length, CASES.length + 3);
  assert.throws(() => parseOptions(["--case", "push-5B"]), /no case is named push-5B/);
  assert.throws(() => parseOptions(["--regime", "warm"]), /no regime is named warm/);
  assert.throws(() => parseOptions(["--raw-only", "--json", "x"]), /nothing for --json/);
});

test("a table that is wider than its terminal loses the columns that are missed least, and says which", () => {
  const ours = { reqPerSec: 4_000, p50Us: 100, p99Us: 300 };
  const lines = [{ ...line("push-1MB-w8"), entry: entryOf(line("push-1MB-w8"), { ours, memory: MEMORY }) }];
  assert.doesNotMatch(formatTable(lines), /left out/);
  assert.equal(formatTable([], 60), "");
  const [head = "", row = "", leftOut] = formatTable(lines, 60).split("\n");
  assert.match(head, /^case +regime +req\/s +GB\/s .*rawShare$/);
  for (const text of [head, row]) assert.ok(text.length <= 60, text);
  assert.match(leftOut ?? "", /^left out for want of room: .*server MB, worker MB$/);
});

test("a share above 1.1 of the ceiling says that the ceiling is wrong", () => {
  const withShare = (reqPerSec: number): string => {
    const ours = { reqPerSec, p50Us: 100, p99Us: 300 };
    return formatLine({ ...line("push-1MB-w8"), entry: entryOf(line("push-1MB-w8"), { ours, memory: MEMORY }) });
  };
  assert.doesNotMatch(withShare(4_400), /the ceiling is wrong/);
  assert.match(withShare(4_500), /share 1\.13 \(the ceiling is wrong\)/);
});

test("a mix is told as its share of the harmonic mean of its push and its fresh pull", () => {
  const withRate = (name: string, reqPerSec: number) => {
    const ours = { reqPerSec, p50Us: 100, p99Us: 300 };
    return { ...line(name), entry: entryOf(line(name), { ours, memory: MEMORY }) };
  };
  const mix = withRate("mix-10kx64-w4", 1_200);
  assert.deepEqual(formatMixes([mix, withRate("push-10kx64-w4", 2_000)]), []);
  assert.deepEqual(formatMixes([mix, withRate("push-10kx64-w4", 2_000), withRate("pull-10kx64-w4-fresh", 1_200)]), [
    "mix-10kx64-w4: 0.80 of the harmonic mean of its push and its fresh pull",
  ]);
});
