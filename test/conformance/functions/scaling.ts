// scaling — what spec/functions.md says of src/contracts/scaling.ts.

import * as scaling from "../../../src/contracts/scaling.ts";
import { documentedJson, type FunctionFamily } from "./documented.ts";

const WORKERS = {
  presentCount: "workers that are there, without those that were asked to leave",
  wishedCount: "how many there are to be; left out when nothing is asked for any more",
  waitMs: "how much longer those that have not come are waited for",
  isBack: "the change is being taken back",
  ended: 'how the last one ended: `{outcome, reason?}`, with `outcome` "done" or "rolledBack"; left out while one is under way',
  leaving: "ranks that were asked to leave, and have not left yet",
  countMin: "how few there may be",
  countMax: "and how many",
};
const REQUEST_ID =
  "1 to 64 characters by which a repetition is known: a request with an id that was carried out, of the last 32, changes nothing and is answered as the first. Left out, `add` is BAD_REQUEST while a change that adds as many has not ended";
const NUMBER = "of the change, in reports";
const current = { number: 2, direction: "out", step: "moving", from: [0, 1], to: [0, 1, 2], awaited: [], parts: 1365, moved: 700 } as const;

export const SCALING: FunctionFamily = {
  title: "Servers and workers that come and leave",
  about:
    "What tools ask of the number of servers and workers while a job runs, and what the scheduler asks of servers for it (docs/decisions/0073, 0074). One JSON object each way. Tools need no slot (protocol.md, C3).",
  functions: [
    documentedJson(scaling.scalingAsk, {
      about: "Asks for a change of the servers. Answered when it is written down; it begins when those before it have ended.",
      request: {
        to: "how many servers there are to be; exactly one of `to`, `add` and `leave` is there",
        add: "how many more",
        leave: "the ranks of those that leave",
        timeoutMs: "how long new servers may take to come; left out: a minute",
        requestId: REQUEST_ID,
      },
      response: { number: NUMBER },
      errors: ["ARENA_FULL", "BAD_REQUEST", "NODE_DEAD", "NO_ROUTE", "QUEUE_FULL", "UNSUPPORTED"],
      example: { request: { to: 3, timeoutMs: 60_000 }, response: { number: 2 } },
    }),
    documentedJson(scaling.scalingWorkers, {
      about:
        "Asks for another number of workers. Answered when it is written down. More join as soon as somebody starts them; if they do not all come in time, there are to be as many as before. Those that are too many see in the roster that they are asked to leave.",
      request: {
        to: "how many workers there are to be; exactly one of `to`, `add` and `leave` is there",
        add: "how many more",
        leave: "the ranks of those that leave",
        timeoutMs: "how long new workers may take to come; left out: a minute",
        requestId: REQUEST_ID,
      },
      response: WORKERS,
      errors: ["BAD_REQUEST", "NO_ROUTE"],
      example: {
        request: { to: 5, timeoutMs: 60_000 },
        response: { presentCount: 2, wishedCount: 5, waitMs: 60_000, leaving: [], countMin: 2, countMax: 8 },
      },
    }),
    documentedJson(scaling.scalingRollBack, {
      about:
        "Takes the change of the servers that is under way back, and the one for which workers are waited for. Answered when all parts are where they were, and new servers have left; workers that came are asked to leave, and take their time.",
      request: { direction: '"out" or "in": only a change of that direction; left out: any' },
      response: {
        number: `${NUMBER}; left out: only workers were waited for`,
        workerCount: "how many workers there are to be again, if so",
      },
      errors: ["BAD_REQUEST"],
      example: { request: { direction: "out" }, response: { number: 2 } },
    }),
    documentedJson(scaling.scalingReport, {
      about: "How far the change under way is, and how the last ones ended.",
      request: {},
      response: {
        wishedCount: "how many servers there are to be when the change under way is done",
        shares: "a list of `{rank, parts}`: how many of the 4,096 parts each server owns",
        skew: "how many of them the fullest server owns, as a multiple of the mean: 1 is even; left out for one server",
        current:
          '`{number, direction, step, from, to, awaited, awaitedStandbys?, fillingStandbys?, waitMs?, parts?, moved?}`; left out: none. `direction` is "out" or "in", `step` "waiting", "moving", "leaving" or "rollingBack"; `from` and `to` are the ranks before and after, `awaited` those that have not come; of replicated servers `awaitedStandbys` those whose second process has not, and `fillingStandbys` those where it does not have everything yet; `waitMs` how much longer they are waited for, `parts` how many parts move and `moved` how many have',
        queued: "the numbers of changes that come later",
        ended: 'the last ones, the newest last: a list of `{number, outcome, reason?}`; `outcome` is "done", "rolledBack" or "failed"',
        workers: "what wb/scaling/workers answers",
      },
      errors: [],
      example: {
        request: {},
        response: {
          wishedCount: 3,
          shares: [
            { rank: 0, parts: 2304 },
            { rank: 1, parts: 1792 },
          ],
          skew: 1.125,
          current,
          queued: [],
          ended: [{ number: 1, outcome: "rolledBack", reason: "waited 60000 ms for server 2 to come" }],
        },
      },
    }),
    documentedJson(scaling.scalingEnded, {
      about: "Answered when the change has ended, or the job: CLOSED, or the error that the job failed with.",
      request: { number: NUMBER },
      response: { number: NUMBER, outcome: '"done", "rolledBack" or "failed"', reason: "why it did not do what was asked" },
      errors: ["BAD_REQUEST", "CLOSED"],
      example: { request: { number: 2 }, response: { number: 2, outcome: "done" } },
    }),
    documentedJson(scaling.scalingSurvey, {
      about: "From the scheduler, before anything moves: whether the server can go along. It names what cannot move.",
      request: { servers: "the ranks of the servers to be" },
      response: { stateBytes: "that the server holds", stateBytesMax: "that it can hold" },
      errors: ["BAD_REQUEST", "UNSUPPORTED"],
      example: { request: { servers: [0, 1, 2] }, response: { stateBytes: 1_048_576, stateBytesMax: 2_147_483_648 } },
    }),
    documentedJson(scaling.scalingSpare, {
      about: "From the scheduler, to a server that waits for a slot and gets none for now (protocol.md, C5b).",
      request: { serverCount: "how many servers the job has" },
      response: {},
      errors: ["BAD_REQUEST"],
      example: { request: { serverCount: 2 }, response: {} },
    }),
  ],
};
