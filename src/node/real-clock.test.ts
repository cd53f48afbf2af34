// The clock of a running process.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { realClock } from "./real-clock.ts";

test("soon comes before input and timers, afterInput after the present turn", async () => {
  const clock = realClock();
  const seen: string[] = [];
  await new Promise<void>((resolve) => {
    clock.afterInput(() => {
      seen.push("after input");
      resolve();
    });
    clock.soon(() => seen.push("soon"));
    seen.push("now");
  });
  assert.deepEqual(seen, ["now", "soon", "after input"]);
});

test("timers fire once, not before their time, and not when cancelled", async () => {
  const clock = realClock();
  const cancel = clock.after(1, () => assert.fail("cancelled"));
  cancel();
  cancel();
  const startMs = clock.nowMs();
  await new Promise<void>((resolve) => void clock.after(5, resolve));
  assert.ok(clock.nowMs() - startMs >= 4);
});

test("a delay without end does not fire at once, and a running timer keeps the process alive", () => {
  const script = `
    import { realClock } from ${JSON.stringify(new URL("./real-clock.ts", import.meta.url).href)};
    const cancel = realClock().after(Infinity, () => console.log("fired"));
    realClock().after(5, () => { console.log("done"); cancel(); });`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 60_000,
  });
  assert.equal(stderr, "");
  assert.equal(stdout, "done\n");
  assert.equal(status, 0);
});
