// Goal: no worker leaves before the report, and one reports, whichever dies (TrainingWorker.F1, TrainingWorker.F2).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { Deferred } from "../../base/deferred.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { leaveTogether } from "./training-worker.ts";

const WAIT = { timeoutMs: 20_000 };

test("the first worker gives the word, once, and nobody leaves before (TrainingWorker.F1, TrainingWorker.F2)", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 3 });
  const happened: string[] = [];
  const tell = async (rank: number): Promise<void> => {
    happened.push(`told by ${rank}`);
    await new Promise((resolve) => setImmediate(resolve));
    happened.push("reported");
  };
  await Promise.all(
    cluster.sessions.map(async (session) => {
      await leaveTogether(session, () => tell(session.rank), WAIT);
      happened.push("left");
    }),
  );
  assert.deepEqual(happened, ["told by 0", "reported", "left", "left", "left"]);
});

/** What a worker of this rank does, whose rounds are held by these ranks, each with whether it came with the word. */
async function leave(rank: number, rounds: readonly (readonly (readonly [number, boolean])[])[]): Promise<string[]> {
  const happened: string[] = [];
  const left = [...rounds];
  const meet = (_: string, { generation, value }: { generation: number; value?: string }): Promise<unknown> => {
    happened.push(`${generation}${value === undefined || value === "" ? "" : ` ${value}`}`);
    return Promise.resolve(
      (left.shift() ?? assert.fail("asked after the end")).map(([who, told]) => ({ rank: who, value: told ? "reported" : "" })),
    );
  };
  const session = { rank, rendezvous: { meet } } as unknown as Session;
  await leaveTogether(session, () => Promise.resolve(void happened.push("tells")), {});
  return happened;
}

test("when the first worker dies over the word, the next one gives it (TrainingWorker.F1)", async () => {
  const [all, rest] = [
    [0, 1, 2],
    [1, 2],
  ].map((ranks) => ranks.map((rank) => [rank, false] as const)) as [[], []];
  const last = [
    [1, true],
    [2, false],
  ] as const;
  assert.deepEqual(await leave(1, [all, rest, last]), ["0", "1", "tells", "2 reported"]);
  assert.deepEqual(await leave(2, [all, rest, last]), ["0", "1", "2"]);
});

test("a word that was given before its worker died counts (TrainingWorker.F2)", async () => {
  const [all] = [[0, 1].map((rank) => [rank, false] as const)];
  const told = [
    [0, true],
    [1, false],
  ] as const;
  assert.deepEqual(await leave(1, [all!, told]), ["0", "1"]);
});

test("a word that cannot be given is not taken as given", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const [first, second] = cluster.sessions as [Session, Session];
  const failed = new Deferred<void>();
  const leaving = assert.rejects(
    leaveTogether(first, () => Promise.reject(new Error("no")), WAIT).finally(() => failed.resolve()),
    /no/,
  );
  const other = leaveTogether(second, () => Promise.resolve(), { timeoutMs: 300 });
  await leaving;
  await assert.rejects(other, { code: "DEADLINE" });
});
