// Goal: which of the states that stopped servers have left a process finds, with and without a rank.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import { EntryKind, EntryPage } from "../../server/replication/log-entry.ts";
import type { PlannedStopFiles } from "../../server/replication/planned-stop.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { FileLayer } from "../checkpoint/file-layer.ts";
import { realClock } from "../real-clock.ts";
import { durableFiles, SegmentLog } from "./segment-log.ts";
import { StoppedServers, type StoppedServersOptions } from "./stopped-servers.ts";

const clock = realClock();

class Folder implements Disposable {
  readonly #folder = temporaryFolder();

  directoryOf(rank: number): string {
    return join(this.#folder.path, "stopped", `server-${rank}`);
  }

  leave(...ranks: readonly number[]): void {
    for (const rank of ranks) {
      mkdirSync(this.directoryOf(rank), { recursive: true });
      writeFileSync(join(this.directoryOf(rank), "log-000000000001"), "");
    }
  }

  /** Another process uses what was left for this rank. */
  async hold(rank: number): Promise<SegmentLog> {
    const held = new SegmentLog({ directory: this.directoryOf(rank), clock, log: SILENT_LOG });
    await held.acquire();
    return held;
  }

  servers(options: Partial<StoppedServersOptions> = {}): StoppedServers {
    const own = { checkpointDir: this.#folder.path, durable: undefined, job: undefined, rank: undefined, van: "weighbridge" as const };
    return new StoppedServers({ ...own, startTimeoutMs: 300, ...options });
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }
}

/** The rank of what a process finds, which it gives back. */
async function foundRank(servers: StoppedServers, folder: Folder): Promise<number | undefined> {
  const found = await filesOf(servers);
  const rank = [0, 1, 2].find((one) => found?.found !== undefined && existsSync(join(folder.directoryOf(one), "lock")));
  await found?.found?.close();
  return rank;
}

async function filesOf(servers: StoppedServers, log: Log = SILENT_LOG): Promise<PlannedStopFiles | undefined> {
  return await servers.files(clock, log);
}

test("a process with a rank finds what was left for that one; without a directory, and with a log of its own, it looks for nothing", async () => {
  using folder = new Folder();
  folder.leave(0, 1);
  assert.equal(await foundRank(folder.servers({ rank: 1 }), folder), 1);
  assert.equal(await foundRank(folder.servers({ rank: 2 }), folder), undefined);
  assert.equal(await filesOf(folder.servers({ rank: 1, checkpointDir: undefined })), undefined);
  assert.equal(await filesOf(folder.servers({ rank: 1, durable: "there" })), undefined);
});

test("a process without a rank finds the only state that no other process uses, and none of several", async () => {
  using folder = new Folder();
  assert.equal(await foundRank(folder.servers(), folder), undefined, "nothing is there");
  folder.leave(1);
  assert.equal(await foundRank(folder.servers(), folder), 1);
  folder.leave(2);
  assert.equal(await foundRank(folder.servers(), folder), undefined, "which one is not known");
  assert.ok(
    [1, 2].every((rank) => !existsSync(join(folder.directoryOf(rank), "lock"))),
    "both are given back",
  );
  const held = await folder.hold(1);
  const found = await filesOf(folder.servers());
  assert.ok(found?.found !== undefined && existsSync(join(folder.directoryOf(2), "lock")));
  await Promise.all([held.close(), found.found.close()]);
});

test("a process waits for what another one of its rank uses: it gets it, or nothing is there any more", async () => {
  using folder = new Folder();
  for (const isUsed of [false, true]) {
    folder.leave(0);
    const held = await folder.hold(0);
    const finding = filesOf(folder.servers({ rank: 0, startTimeoutMs: 60_000 }));
    setTimeout(() => {
      if (isUsed) rmSync(join(folder.directoryOf(0), "log-000000000001"));
      void held.close();
    }, 50);
    const found = await finding;
    assert.equal(found?.found === undefined, isUsed);
    await found?.found?.close();
  }
  folder.leave(0);
  const held = await folder.hold(0);
  await assert.rejects(filesOf(folder.servers({ rank: 0 })), throwsCode("STATE_HELD"));
  await held.close();
});

test("of two processes that come for a state that is not finished, the first sets it aside though the second has its lock by then", async () => {
  using folder = new Folder();
  folder.leave(0);
  const first = await filesOf(folder.servers({ rank: 0, startTimeoutMs: 60_000 }));
  const coming = filesOf(folder.servers({ rank: 0, startTimeoutMs: 60_000 }));
  await first?.found?.close();
  const second = await coming; // it has looked at it, and finds it unfinished, too
  const asides = [first?.setAside?.(), second?.found?.close().then(async () => await second.setAside?.())];
  await Promise.all(asides);
  assert.ok(existsSync(`${folder.directoryOf(0)}.aside`));
  assert.equal(existsSync(folder.directoryOf(0)), false);
});

for (const operation of ["create", "syncDirectory"] as const)
  test(`a process that comes for what another one goes on with, and removes at that moment, finds nothing (${operation})`, async () => {
    using folder = new Folder();
    folder.leave(0);
    const held = await folder.hold(0);
    let isGone = false;
    /** The other process removes the directory before this one's operation, once its lock was seen. */
    const racing = async <T>(work: () => Promise<T>): Promise<T> => {
      if (!isGone) rmSync(folder.directoryOf(0), { recursive: true });
      isGone = true;
      return await work();
    };
    const layer: FileLayer = {
      ...durableFiles,
      [operation]: async (path: string) => await racing(async () => await durableFiles[operation](path)),
    };
    const found = await filesOf(folder.servers({ rank: 0, startTimeoutMs: 60_000, layer }));
    assert.ok(isGone && found?.found === undefined);
    await held.close();
  });

test("a stop that was killed before it had the whole state has nothing to repeat, whatever its first number, and is set aside with a warning; another log is damaged", async () => {
  for (const first of [1, 7]) await killedBefore(first);
});

async function killedBefore(first: number): Promise<void> {
  using folder = new Folder();
  const page = new EntryPage(new Uint8Array(512));
  page.addText(EntryKind.IDENTITY, new Uint8Array(8).fill(32));
  const written = new SegmentLog({ directory: folder.directoryOf(0), clock, log: SILENT_LOG });
  await written.open(() => {});
  await written.write({ first, last: first, entries: page.bytes.subarray(0, page.length) });
  await written.close();
  const durable = new SegmentLog({ directory: folder.directoryOf(0), clock, log: SILENT_LOG });
  if (first > 1)
    await assert.rejects(
      durable.open(() => {}),
      throwsCode("STATE_CORRUPT", /no state that is whole/),
    );
  await durable.close();
  const warnings: [string, object | undefined][] = [];
  const warn: Log["warn"] = (message, fields) => void warnings.push([message, fields]);
  const files = await filesOf(folder.servers({ rank: 0 }), { ...SILENT_LOG, warn });
  let pageCount = 0;
  await files?.found?.open(() => pageCount++);
  assert.equal(pageCount, 0);
  await files?.found?.close();
  assert.deepEqual(warnings, []);
  await files?.setAside?.();
  const kept = `${folder.directoryOf(0)}.aside`;
  assert.deepEqual(warnings, [["a state that another run has left, or that was not finished, is kept beside", { kept }]]);
  assert.ok(existsSync(kept));
  assert.equal(existsSync(folder.directoryOf(0)), false);
}

test("what a process finds and may not go on with is kept beside, and not removed; so is what lies where a server leaves its state", async () => {
  using folder = new Folder();
  const aside = `${folder.directoryOf(0)}.aside`;
  folder.leave(0);
  writeFileSync(join(folder.directoryOf(0), "log-000000000001"), "of another run");
  const servers = folder.servers({ rank: 0 });
  const first = await filesOf(servers);
  await first?.found?.close();
  assert.ok(servers.giveUp(new WeighbridgeError("FENCED", "it is of another run")));
  const files = await filesOf(servers);
  assert.equal(files?.found, undefined);
  assert.equal(readFileSync(join(aside, "log-000000000001"), "utf8"), "of another run");
  assert.equal(existsSync(folder.directoryOf(0)), false);
  folder.leave(0);
  const own = await files?.logOf(0);
  await own?.open(() => {});
  assert.equal(readFileSync(join(aside, "log-000000000001"), "utf8"), "", "the newest one is kept");
  await own?.remove();
  assert.equal(await foundRank(folder.servers(), folder), undefined, "nobody goes on with it");
});
