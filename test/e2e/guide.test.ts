// guide — Goal: the scripts of the guides run as they stand there, and do what they are said to do.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Processes, ROOT } from "./processes.ts";

/** Lays the first script of a guide down as a file within the package, so that it can import it by name. */
class GuideScript implements Disposable {
  readonly directory: string;
  readonly path: string;

  constructor(guide: string) {
    const script = /```ts\n(import .*?)```/s.exec(readFileSync(join(ROOT, "docs/guides", guide), "utf8"))?.[1];
    assert.ok(script !== undefined, `${guide} begins with a script`);
    this.directory = join(ROOT, ".weighbridge", `${guide}-${process.pid}`);
    this.path = join(this.directory, "script.ts");
    mkdirSync(this.directory, { recursive: true });
    writeFileSync(this.path, script);
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Lays the files of a guide down side by side: the scripts that begin with their name. */
class GuideFiles implements Disposable {
  readonly directory: string;

  constructor(guide: string, names: readonly string[]) {
    this.directory = join(ROOT, ".weighbridge", `${guide}-${process.pid}`);
    mkdirSync(this.directory, { recursive: true });
    const text = readFileSync(join(ROOT, "docs/guides", guide), "utf8");
    for (const name of names) {
      const script = new RegExp(`\`\`\`ts\n// ${name}\n(.*?)\`\`\``, "s").exec(text)?.[1];
      assert.ok(script !== undefined, `${guide} has ${name}`);
      writeFileSync(join(this.directory, name), script);
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

test("the guide's function is loaded by the servers, and its script calls it on all of them", async () => {
  using files = new GuideFiles("functions.md", ["functions.ts", "train.ts"]);
  await using processes = new Processes();
  const functions = join(files.directory, "functions.ts");
  const script = join(files.directory, "train.ts");
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--functions", functions, "--", script]);
  await job.succeeds();
  const norm = 2 * Math.sqrt(1000);
  for (const rank of [0, 1]) await job.says(new RegExp(`\\[worker/${rank}\\] worker ${rank}: ${norm}$`));
});

test("the guide's server tells all workers but the one that asked, over the connections that they opened", async () => {
  using files = new GuideFiles("functions.md", ["notes.ts", "follow.ts"]);
  await using processes = new Processes();
  const [functions, script] = ["notes.ts", "follow.ts"].map((name) => join(files.directory, name)) as [string, string];
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 3, "--functions", functions, "--", script]);
  await job.succeeds();
  await job.says(/\[worker\/0\] worker 0 has told 2$/);
  await job.says(/\[worker\/0\] worker 0: undefined$/);
  for (const rank of [1, 2]) {
    await job.says(new RegExp(`\\[worker/${rank}\\] worker ${rank} hears of key 7 from server [01]$`));
    await job.says(new RegExp(`\\[worker/${rank}\\] worker ${rank}: 0.5$`));
  }
});

test("the guide's own model trains on two servers and two workers", async () => {
  using script = new GuideScript("train-your-own-model.md");
  await using processes = new Processes();
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--", script.path]);
  await job.succeeds();
  await job.says(/\[worker\/0\] epoch: 1 step: 1, loss is \d\.\d{6}$/);
  for (const rank of [0, 1]) {
    const [, accuracy] = await job.says(new RegExp(`\\[worker/${rank}\\] accuracy (\\d\\.\\d+); waited`));
    assert.ok(Number(accuracy) > 0.95, job.transcript);
  }
});

test("the guide's cached embedding finds rows with the workers, and is saved after its epochs", async () => {
  using script = new GuideScript("embedding-cache.md");
  await using processes = new Processes();
  const checkpoints = join(script.directory, "checkpoints");
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--checkpoint-dir", checkpoints, "--", script.path]);
  await job.succeeds();
  for (const rank of [0, 1]) {
    const [, hits] = await job.says(new RegExp(`\\[worker/${rank}\\] .*deviceHits: (\\d+)`));
    assert.ok(Number(hits) > 0, job.transcript);
  }
  assert.ok(existsSync(join(checkpoints, "latest")), job.transcript);
});

test("the guide's updater is loaded by the servers, and steps by its rate whatever the gradients are", async () => {
  using files = new GuideFiles("your-own-updater.md", ["updaters.ts", "train.ts"]);
  await using processes = new Processes();
  const [updaters, script] = ["updaters.ts", "train.ts"].map((name) => join(files.directory, name));
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--functions", updaters ?? "", "--", script ?? ""]);
  await job.succeeds();
  for (const rank of [0, 1]) await job.says(new RegExp(`\\[worker/${rank}\\] worker ${rank}: -1 1 -1 0$`));
});

test("the guide's row type keeps the heaviest pairs of a row, whoever pushed them", async () => {
  using files = new GuideFiles("your-own-row-type.md", ["rows.ts", "count.ts"]);
  await using processes = new Processes();
  const [rows, script] = ["rows.ts", "count.ts"].map((name) => join(files.directory, name));
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--functions", rows ?? "", "--", script ?? ""]);
  await job.succeeds();
  for (const rank of [0, 1]) await job.says(new RegExp(`\\[worker/${rank}\\] worker ${rank}: 3 of 11 4 12 4 10 2$`));
});
