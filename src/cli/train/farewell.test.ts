// Goal: nobody leaves before the word is given, and somebody gives it, whoever dies (F1, F2 of farewell.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { farewell } from "./farewell.ts";

type Answer = Awaited<ReturnType<Awaited<ReturnType<Session["units"]>>["next"]>>;

const unit = (part: number): Answer => ({ unit: part, batch: 0, part });

/** Of two workers one whose feed gives these answers, and what happened in which order. */
async function leave(answers: readonly Answer[], tell?: () => Promise<void>): Promise<string[]> {
  const happened: string[] = [];
  const left = [...answers];
  const feed = {
    next: async (): Promise<Answer> => await Promise.resolve(left.shift() ?? assert.fail("asked after the end")),
    done: (number: number): number => happened.push(`done ${number}`),
    close: (): number => happened.push("closed"),
  };
  const session = { workerCount: 2, units: () => Promise.resolve(feed) } as unknown as Session;
  const told = async (): Promise<void> => {
    await tell?.();
    happened.push("told");
  };
  await farewell(session, told, {}).catch(() => happened.push("failed"));
  return happened;
}

test("who holds the first unit gives the word, and then is done (F1)", async () => {
  assert.deepEqual(await leave([unit(0), "idle", "over"]), ["told", "done 0", "closed"]);
});

test("the others stay until it is over (F2)", async () => {
  assert.deepEqual(await leave([unit(1), "idle", "idle", "over"]), ["done 1", "closed"]);
});

test("who is lent the unit of one that died gives the word (F1)", async () => {
  assert.deepEqual(await leave([unit(1), "idle", unit(0), "over"]), ["done 1", "told", "done 0", "closed"]);
});

test("a word that cannot be given is not taken as given", async () => {
  const happened = await leave([unit(0), "over"], () => Promise.reject(new Error("no")));
  assert.deepEqual(happened, ["closed", "failed"]);
});
