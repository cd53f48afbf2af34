// Goal: a worker stands at one clock on all servers, never goes back, and finds its way into the clock set again by
// itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { takenOutError } from "../wire/failure.ts";
import type { FunctionClient } from "./function-client.ts";
import { LAST_PRIORITY, PushNumbers, WorkerClock } from "./worker-clock.ts";

/** Servers that stand at these clocks, and what they were asked: "join", "advance 3". */
class Servers {
  readonly asked: string[] = [];
  readonly warnings: string[] = [];
  clocks: readonly number[] = [0, 0];
  /** Clocks whose updates one of them has dropped. */
  readonly lost: number[] = [];
  failure: Error | undefined;
  /** They answer once this is settled. */
  answers: Promise<void> | undefined;
  /** The same with priorities. */
  readonly sent: string[] = [];
  /** They know nothing of this worker. */
  refusesClocks = false;
  rejoinCount = 0;
  /** How often the worker is joining now. */
  joiningCount = 0;

  readonly time = new SimClock();
  readonly pushes = new PushNumbers();
  readonly callAll = (async (
    fn: { readonly name: string },
    { clock, leaves = false }: { readonly clock?: number; readonly leaves?: boolean },
    { priority = 0 }: { readonly priority?: number },
  ) => {
    const ask = leaves ? "leave" : `${fn.name.replace("wb/clock/", "")}${clock === undefined ? "" : ` ${clock}`}`;
    this.asked.push(ask);
    this.sent.push(`${ask} ${priority}`);
    await this.answers;
    if (this.failure !== undefined) throw this.failure;
    if (this.refusesClocks && clock !== undefined) throw new WeighbridgeError("NOT_JOINED", "who are you?");
    return this.clocks.map((at) => ({ clock: at, lost: ask === "join" ? this.lost.splice(0) : [] }));
  }) as FunctionClient["callAll"];
  readonly clock = new WorkerClock({
    name: "worker 1",
    clock: this.time,
    pushes: this.pushes,
    functions: {
      joining: () => {
        this.joiningCount++;
        return () => this.joiningCount--;
      },
      callAll: this.callAll,
      call: (async (fn: { readonly name: string }, { server }: { readonly server: number }, { clock }: { readonly clock?: number }) => {
        this.asked.push(`${fn.name.replace("wb/clock/", "")}${clock === undefined ? "" : ` ${clock}`} of server ${server}`);
        if (this.failure !== undefined) throw this.failure;
        return await Promise.resolve({ clock: this.clocks[server], lost: [] });
      }) as unknown as FunctionClient["call"],
    },
    router: { tellAll: async (fn, request, priority) => void (await this.callAll(fn, request, { priority })) },
    log: { ...SILENT_LOG, warn: (message) => this.warnings.push(message) },
    joiningAgain: () => {
      this.rejoinCount++;
    },
  });
}

test("who joins stands at the highest clock of all servers, and those that are behind are told", async () => {
  const servers = new Servers();
  servers.clocks = [4, 7];
  await servers.clock.join({});
  assert.deepEqual([servers.clock.value, servers.asked], [7, ["join", "advance 7"]]);
});

test("nothing moves the clock back: no join at servers that are behind, no checkpoint of an earlier clock (WorkerClock.J3)", async () => {
  const servers = new Servers();
  servers.clock.raise(5);
  servers.clock.raise(2);
  await servers.clock.join({});
  assert.deepEqual([servers.clock.value, servers.asked], [5, ["join", "advance 5"]]);
});

test("the end of a clock that servers do not hear of is a warning: nobody waits for it (WorkerClock.J1)", async () => {
  const servers = new Servers();
  servers.failure = new WeighbridgeError("NODE_DEAD", "server 0 is dead");
  assert.equal(servers.clock.advance(), 1);
  await setImmediate();
  assert.deepEqual(servers.warnings, ["a server did not hear of the end of a clock"]);
});

test("servers that could not be reached are told the clock again until they hear of it; after another failure, or once this worker has left, they are not (WorkerClock.J6)", async () => {
  const servers = new Servers();
  servers.failure = new WeighbridgeError("LINK_LOST", "server 0 could not be reached");
  servers.clock.advance();
  servers.clock.advance();
  await servers.time.advance(5000);
  assert.deepEqual(servers.asked.slice(0, 3), ["advance 1", "advance 2", "advance 2"]);
  assert.equal(servers.warnings.length, 1, "one, until they hear again");
  servers.failure = undefined;
  await servers.time.advance(5000);
  const heard = servers.asked.length;
  await servers.time.advance(5000);
  assert.equal(servers.asked.length, heard);
  servers.failure = new WeighbridgeError("NOT_JOINED", "who are you?");
  servers.clock.advance();
  await servers.time.advance(5000);
  assert.equal(servers.asked.length, heard + 1);
  assert.equal(servers.warnings.length, 2);
  servers.failure = new WeighbridgeError("NODE_DEAD", "server 0 is dead");
  servers.clock.advance();
  await servers.clock.leave({}).catch(() => {}); // of a server that cannot be told
  const left = servers.asked.length;
  await servers.time.advance(5000);
  assert.equal(servers.asked.length, left);
});

test("NOT_JOINED and STALE_UPDATE lead back into the clock set, once at a time; other failures do not (WorkerClock.J2)", async () => {
  const servers = new Servers();
  servers.clock.joinAgain(new WeighbridgeError("QUEUE_FULL", "full"));
  assert.equal(servers.rejoinCount, 0);
  for (const code of ["NOT_JOINED", "STALE_UPDATE", "NOT_JOINED"] as const)
    servers.clock.joinAgain(new WeighbridgeError(code, "who are you?"));
  await setImmediate();
  assert.deepEqual([servers.rejoinCount, servers.asked], [1, ["join"]]);
  servers.clock.joinAgain(new WeighbridgeError("STALE_UPDATE", "too late"));
  await setImmediate();
  assert.equal(servers.rejoinCount, 2);
});

test("each rejoin is a join of its own that begins after it, also while another is under way (WorkerClock.J10)", async () => {
  const servers = new Servers();
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "who are you?"));
  await Promise.all([servers.clock.rejoin(), servers.clock.rejoin()]);
  assert.deepEqual([servers.rejoinCount, servers.asked], [3, ["join", "join", "join"]]);
});

test("a clock that was ended and does not count fails the next call once; the one that is not ended fails none (WorkerClock.J9)", async () => {
  const servers = new Servers();
  servers.clock.advance();
  servers.lost.push(1);
  await servers.clock.rejoin();
  assert.equal(servers.clock.forCall, 1, "the call that found it out has told");
  servers.clock.advance();
  servers.lost.push(2, 1);
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "who are you?"));
  await setImmediate();
  assert.equal(servers.clock.value, 2);
  assert.throws(() => servers.clock.forCall, {
    code: "NOT_JOINED",
    retryable: true,
    message:
      /worker 1 was taken for dead .* pushed at clock 1, 2 to parameters with sync updates does not count; it has joined again, and stands at clock 2/,
  });
  assert.equal(servers.clock.forCall, 2);
});

test("a worker that went on before it was told of a lost clock hears at which clock it stands by then (WorkerClock.J9)", async () => {
  const servers = new Servers();
  servers.clock.advance();
  servers.clock.advance();
  servers.lost.push(1);
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "who are you?"));
  await setImmediate();
  servers.clock.advance();
  assert.throws(() => servers.clock.forCall, { code: "NOT_JOINED", message: /pushed at clock 1 .* stands at clock 3$/ });
});

test("a call that finds out is told once this worker has joined again, with both clocks, and so is one beside it; the next one is told nothing (WorkerClock.J2, WorkerClock.J9)", async () => {
  const servers = new Servers();
  const refused = new WeighbridgeError("NOT_JOINED", "who are you?", { retryable: true });
  servers.clock.advance();
  servers.lost.push(0);
  servers.clock.joinAgain(refused);
  const told = await Promise.all([servers.clock.explained(refused, {}), servers.clock.explained(refused, {})]);
  for (const { code, retryable, message } of told) {
    assert.deepEqual([code, retryable], ["NOT_JOINED", true]);
    assert.match(message, /pushed at clock 0 .* does not count; it has joined again, and stands at clock 1: push again/);
  }
  assert.equal(servers.clock.forCall, 1);
  servers.clock.joinAgain(refused);
  assert.match(
    (await servers.clock.explained(refused, {})).message,
    /^who are you\?; it has joined again, and stands at clock 1: push again/,
  );
});

test("a call is told as it failed when the join fails, takes too long, or there is none; other failures are not held back", async () => {
  const servers = new Servers();
  const refused = new WeighbridgeError("NOT_JOINED", "who are you?");
  assert.equal(await servers.clock.explained(refused, {}), refused, "it joins no server by itself, having left");
  servers.failure = new WeighbridgeError("NODE_DEAD", "server 1 is dead");
  servers.clock.joinAgain(refused);
  assert.equal(await servers.clock.explained(refused, {}), refused);
  servers.failure = undefined;
  servers.answers = new Promise(() => {});
  servers.clock.joinAgain(refused);
  const other = new WeighbridgeError("NOT_FINITE", "NaN");
  assert.equal(await servers.clock.explained(other, {}), other);
  const late = servers.clock.explained(refused, {});
  await servers.time.advance(1000);
  assert.equal(await late, refused);
});

test("a rejoin that fails by itself is a warning, one that was asked for rejects; both may be tried again", async () => {
  const servers = new Servers();
  servers.failure = new WeighbridgeError("NODE_DEAD", "server 0 is dead");
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "who are you?"));
  await setImmediate();
  assert.deepEqual(servers.warnings, ["joining the clock set again failed"]);
  await assert.rejects(servers.clock.rejoin(), { code: "NODE_DEAD" });
  servers.failure = undefined;
  await servers.clock.rejoin();
  assert.equal(servers.rejoinCount, 3);
});

test("a clock of which servers may not have heard is told right before a join, and leaves with it; one that all have heard of is not (WorkerClock.J7)", async () => {
  const servers = new Servers();
  servers.clocks = [1, 1];
  servers.clock.advance();
  const joined = servers.clock.rejoin();
  const expected = [`advance 1 ${LAST_PRIORITY}`, "advance 1 0", "join 0"];
  assert.deepEqual(servers.sent.splice(0), expected, "behind everything at first, and then with the join");
  await joined;
  await servers.clock.rejoin();
  assert.deepEqual(servers.sent, ["join 0"]);
});

test("a clock whose end could not be told is told again before the next join (WorkerClock.J7)", async () => {
  const servers = new Servers();
  servers.failure = new WeighbridgeError("LINK_LOST", "server 0 could not be reached", { retryable: true });
  servers.clock.advance();
  await setImmediate();
  await assert.rejects(servers.clock.rejoin(), { code: "LINK_LOST" });
  servers.failure = undefined;
  servers.clocks = [1, 1];
  servers.asked.splice(0);
  await servers.clock.rejoin();
  assert.deepEqual(servers.asked, ["advance 1", "join"]);
});

test("servers that know nothing of a worker are joined though they refuse to hear of its clock", async () => {
  const servers = new Servers();
  servers.refusesClocks = true;
  servers.clock.advance();
  await setImmediate();
  servers.clocks = [3, 3];
  await servers.clock.rejoin();
  assert.deepEqual([servers.clock.value, servers.asked], [3, ["advance 1", "advance 1", "join"]]);
});

test("a worker that has left finishes its clock, and stays outside until it is told to rejoin (WorkerClock.J4)", async () => {
  const servers = new Servers();
  await servers.clock.leave({});
  await servers.clock.leave({});
  assert.deepEqual(
    [servers.clock.value, servers.asked.splice(0)],
    [1, ["leave", "leave"]],
    "it leaves one clock, however often it says so",
  );
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "who are you?"));
  assert.equal(servers.clock.advance(), 2);
  await setImmediate();
  assert.deepEqual(servers.asked, []);
  servers.clocks = [0, 5];
  await servers.clock.rejoin();
  assert.deepEqual([servers.clock.value, servers.asked], [5, ["join", "advance 5"]]);
});

test("a worker that steps aside returns at its clock, unless it pushed something at it (WorkerClock.J11)", async () => {
  const servers = new Servers();
  servers.clock.advanceTo(4);
  await servers.clock.stepAside({});
  servers.clocks = [4, 3];
  await servers.clock.rejoin();
  assert.equal(servers.clock.value, 4);
  servers.pushes.next(1, 4);
  await servers.clock.stepAside({});
  await servers.clock.rejoin();
  assert.equal(servers.clock.value, 5);
});

test("many clocks end with one message, and none that is over begins again (WorkerClock.J3)", async () => {
  const servers = new Servers();
  servers.clock.advanceTo(900);
  servers.clock.advanceTo(7);
  await setImmediate();
  assert.deepEqual([servers.clock.value, servers.asked], [900, ["advance 900"]]);
  assert.throws(() => servers.clock.advanceTo(2 ** 32), { code: "OUT_OF_RANGE" });
});

test("a join that is under way when a worker leaves is none that a later rejoin waits for", async () => {
  const servers = new Servers();
  const first = servers.clock.rejoin();
  const left = servers.clock.leave({});
  const second = servers.clock.rejoin();
  await Promise.all([first, left, second]);
  assert.deepEqual(
    servers.asked.filter((ask) => !ask.startsWith("advance")),
    ["join", "leave", "join"],
  );
});

test("the clock that would pass 2^32 - 1 is refused with OUT_OF_RANGE, nothing is sent, and the worker stays where it is (WorkerClock.J5)", () => {
  const servers = new Servers();
  servers.clock.raise(2 ** 32 - 2);
  assert.equal(servers.clock.advance(), 2 ** 32 - 1);
  assert.throws(
    () => servers.clock.advance(),
    (error) => isWeighbridgeError(error, "OUT_OF_RANGE") && /clock 4294967295, the highest/.test(error.message),
  );
  assert.deepEqual([servers.clock.value, servers.asked], [2 ** 32 - 1, ["advance 4294967295"]]);
});

test("a server that was restarted is joined at once, alone, and told the clock that it may not know (WorkerClock.J8)", async () => {
  const servers = new Servers();
  servers.clock.raise(63);
  servers.clocks = [63, 60];
  servers.clock.serverCame(1);
  assert.deepEqual(servers.asked, ["join of server 1"], "before any other call can be made");
  await setImmediate();
  assert.deepEqual(servers.asked, ["join of server 1", "advance 63 of server 1"]);
  assert.equal(servers.rejoinCount, 0, "what it pushed to the others stays");
});

test("a worker that has left joins no server that is restarted, and one that cannot be joined is left to the next call (WorkerClock.J8, WorkerClock.J4)", async () => {
  const servers = new Servers();
  servers.failure = new WeighbridgeError("NODE_DEAD", "server 1 is dead");
  servers.clock.serverCame(1);
  await setImmediate();
  assert.deepEqual([servers.asked.splice(0), servers.warnings], [["join of server 1"], []]);
  servers.failure = undefined;
  await servers.clock.leave({});
  servers.asked.length = 0;
  servers.clock.serverCame(1);
  assert.deepEqual(servers.asked, []);
});

const told = (numbers: PushNumbers, clock: number): string[] => {
  const { clocks, parameters, numbers: last } = numbers.before(clock);
  return [...clocks].map((at, i) => `${at}: ${parameters[i]} ${last[i]}`);
};

test("pushes to each parameter are numbered from 1 on, over clocks (PushNumbers.N1)", () => {
  const numbers = new PushNumbers();
  assert.deepEqual([numbers.next(1, 0), numbers.next(1, 0), numbers.next(2, 0), numbers.next(1, 1)], [1, 2, 1, 3]);
  assert.deepEqual([numbers.last(1), numbers.last(2), numbers.last(3)], [3, 1, 0]);
  assert.deepEqual(told(numbers, 1), ["0: 1 2", "0: 2 1"]);
  assert.deepEqual(told(numbers, 2), ["0: 1 2", "0: 2 1", "1: 1 3"]);
  assert.deepEqual(numbers.all(), { parameters: Uint32Array.of(1, 2), numbers: Uint32Array.of(3, 1) });
});

test("what every server has heard of, and a clock that is begun anew, is told no more; the numbers go on", () => {
  const numbers = new PushNumbers();
  for (const clock of [0, 1, 2]) numbers.next(1, clock);
  numbers.heard(1);
  numbers.drop(2);
  assert.deepEqual(told(numbers, 9), ["1: 1 2"]);
  assert.equal(numbers.next(1, 2), 4);
  assert.deepEqual(told(numbers, 9), ["1: 1 2", "2: 1 4"]);
  numbers.cleared(1);
  assert.deepEqual(told(numbers, 9), []);
});

test("of more clocks than are kept the oldest are told as one, and no push is left out (PushNumbers.N2)", () => {
  const numbers = new PushNumbers();
  numbers.next(2, 0);
  for (let clock = 0; clock < 100; clock++) numbers.next(1, clock);
  const all = told(numbers, 100);
  assert.equal(all.length, 65);
  assert.deepEqual(new Set(all.slice(0, 2)), new Set(["36: 1 37", "36: 2 1"]));
  assert.equal(all.at(-1), "99: 1 100");
});

/** What it says when it is in the clock set again (WorkerClock.J14). */
function rejoinsOf({ clock }: Servers): string[] {
  const rejoined: string[] = [];
  clock.onRejoined(({ message }) => rejoined.push(message));
  return rejoined;
}

test("a worker that was taken for dead joins again without a call, and its next call fails once with NOT_JOINED (WorkerClock.J12)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ code, message }) => told.push(`${code}: ${message}`));
  const rejoined = rejoinsOf(servers);
  servers.clocks = [5, 7];
  servers.clock.wasDead();
  assert.equal(servers.clock.forCall, 0, "no servers have answered yet");
  await setImmediate();
  await setImmediate();
  const message =
    "worker 1 was taken for dead, and out of the clock set: others have gone on without it; it has joined again, and stands at clock 7";
  assert.deepEqual(told, [`NOT_JOINED: ${message}`]);
  assert.deepEqual(rejoined, [message]);
  assert.throws(() => servers.clock.forCall, { code: "NOT_JOINED", retryable: true, message });
  assert.equal(servers.clock.forCall, 7);
});

test("a worker that was taken for dead joins once servers know that it lives, and not if it has left the clock set (WorkerClock.J12)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  servers.failure = new WeighbridgeError("NODE_DEAD", "incarnation 1 is over", { retryable: true });
  servers.clock.wasDead();
  await setImmediate();
  servers.failure = undefined;
  await servers.time.advance(1000);
  await setImmediate();
  assert.deepEqual(servers.asked, ["join", "join", "join"]);
  assert.throws(() => servers.clock.forCall, { code: "NOT_JOINED" });
  await servers.clock.leave({});
  servers.clock.wasDead();
  assert.deepEqual(servers.asked, ["join", "join", "join", "leave"]);
});

test("a refusal of a server says that this worker is out before the scheduler does: listeners are told once, and a call after a refused clock fails (WorkerClock.J13)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ code, message }) => told.push(`${code}: ${message}`));
  const rejoined = rejoinsOf(servers);
  const out = "worker 1 was taken for dead, and out of the clock set: others have gone on without it";
  const later = `${out}; it joins again once the scheduler has heard of it`;
  const refusal = takenOutError("incarnation 1 of worker 1 is over");
  servers.clock.joinAgain(refusal); // of an update
  servers.clock.joinAgain(refusal);
  assert.deepEqual(told, [`NOT_JOINED: ${later}`]);
  assert.equal(servers.clock.forCall, 0, "the call that was refused has said so");
  servers.failure = refusal;
  servers.clock.advance();
  await setImmediate();
  assert.throws(() => servers.clock.forCall, { code: "NOT_JOINED", retryable: true, message: later });
  assert.deepEqual(rejoined, [], "no server has let it in");
  servers.failure = undefined;
  servers.clock.wasDead();
  await setImmediate();
  await setImmediate();
  assert.throws(() => servers.clock.forCall, { message: `${out}; it has joined again, and stands at clock 1` });
  assert.equal(told.length, 1);
  assert.deepEqual(rejoined, [`${out}; it has joined again, and stands at clock 1`], "once it is in (WorkerClock.J14)");
  await servers.time.advance(2000);
  servers.clock.wasDead(); // another time
  await setImmediate();
  await setImmediate();
  assert.deepEqual([told.length, rejoined.length], [2, 2]);
});

test("a refusal that arrives while this worker joins again, after the scheduler has said so, is told once (WorkerClock.J13)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ message }) => told.push(message));
  const rejoined = rejoinsOf(servers);
  const answers = new Deferred<void>();
  servers.answers = answers.promise;
  servers.clock.wasDead();
  servers.clock.joinAgain(takenOutError("incarnation 1 of worker 1 is over")); // of a read that was sent before
  answers.resolve();
  await setImmediate();
  await setImmediate();
  assert.equal(told.length, 1, told.join("\n"));
  assert.equal(rejoined.length, 1, rejoined.join("\n"));
  await servers.time.advance(2000);
  servers.clock.wasDead(); // another time
  await setImmediate();
  await setImmediate();
  assert.equal(told.length, 2);
});

test("a worker that joins again because servers ask for it tells listeners that it was out, when it hears of it (WorkerClock.J13)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ code }) => told.push(code));
  const rejoined = rejoinsOf(servers);
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "it has to join first", { retryable: true }));
  servers.clock.wasDead();
  await setImmediate();
  await setImmediate();
  assert.deepEqual(told, ["NOT_JOINED"]);
  assert.equal(rejoined.length, 1, rejoined.join("\n"));
  assert.equal(servers.clock.forCall, 0, "the call that was refused has said so");
});

test("however late the scheduler's word comes, behind a refusal and a join that servers asked for, it tells nothing again (WorkerClock.J13)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ message }) => told.push(message));
  const rejoined = rejoinsOf(servers);
  servers.clock.joinAgain(takenOutError("incarnation 1 of worker 1 is over"));
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "it has to join first", { retryable: true }));
  await setImmediate();
  assert.deepEqual([told.length, rejoined.length], [1, 1]);
  await servers.time.advance(5000); // the machine stood still
  servers.clock.wasDead();
  await setImmediate();
  await setImmediate();
  assert.deepEqual([told.length, rejoined.length], [1, 1], told.join("\n"));
  assert.equal(servers.clock.forCall, 0, "it has not joined once more");
  servers.clock.wasDead(); // another time
  await setImmediate();
  await setImmediate();
  assert.deepEqual([told.length, rejoined.length], [2, 2]);
});

test("a join by the scheduler's word that is refused at first, and tried again late, tells nothing again (WorkerClock.J13)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ message }) => told.push(message));
  servers.failure = takenOutError("incarnation 1 of worker 1 is over");
  servers.clock.joinAgain(servers.failure as WeighbridgeError);
  servers.clock.wasDead(); // before a server has heard that it lives
  await setImmediate();
  servers.failure = undefined;
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "it has to join first", { retryable: true }));
  await setImmediate();
  await servers.time.advance(5000);
  await setImmediate();
  assert.equal(told.length, 1, told.join("\n"));
  assert.equal(servers.asked.filter((ask) => ask === "join").length, 3, "it was in when it would have tried again");
});

test("a word that comes while a join is under way that fails leads to another join (WorkerClock.J12)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ message }) => told.push(message));
  servers.failure = new WeighbridgeError("NODE_DEAD", "incarnation 1 is over", { retryable: true });
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "it has to join first", { retryable: true }));
  servers.clock.wasDead();
  await setImmediate();
  servers.failure = undefined;
  await servers.time.advance(1000);
  await setImmediate();
  assert.equal(servers.asked.filter((ask) => ask === "join").length, 3);
  assert.equal(told.length, 1, told.join("\n"));
});

test("once a heartbeat that left behind a join was answered without the word, the next word is of another time (WorkerClock.J15)", async () => {
  const servers = new Servers();
  await servers.clock.join({});
  const told: string[] = [];
  servers.clock.onLost(({ message }) => told.push(message));
  const leftAtMs = servers.time.nowMs();
  await servers.time.advance(10);
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "a server was restarted", { retryable: true }));
  await setImmediate();
  servers.clock.wasAlive(leftAtMs);
  servers.clock.wasDead();
  await setImmediate();
  assert.equal(servers.asked.filter((ask) => ask === "join").length, 2, "the first answer says nothing of what came later");
  assert.equal(told.length, 1);
  servers.clock.joinAgain(new WeighbridgeError("NOT_JOINED", "a server was restarted", { retryable: true }));
  await setImmediate();
  await servers.time.advance(10);
  servers.clock.wasAlive(servers.time.nowMs());
  servers.clock.wasDead();
  await setImmediate();
  assert.equal(servers.asked.filter((ask) => ask === "join").length, 4);
  assert.equal(told.length, 2);
  assert.throws(() => servers.clock.forCall, { code: "NOT_JOINED" });
});
