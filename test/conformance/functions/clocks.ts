// clocks — what spec/functions.md says of src/contracts/clocks.ts and long-waits.ts, and of groups of workers in
// src/contracts/beside-parameters.ts.

import { partialReducePartners, sspSync } from "../../../src/contracts/beside-parameters.ts";
import { clockAdvance, clockJoin } from "../../../src/contracts/clocks.ts";
import { clockAwaited } from "../../../src/contracts/long-waits.ts";
import { MEMBER_ERRORS } from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const reportWords = {
  clocks: "of pushes that some server may not have heard of: their clocks, rising",
  parameters: "beside each, the number of a parameter that the worker pushed to at that clock",
  numbers: "beside each, the number of its last push to the parameter at that clock (consistency.md, N2)",
};
const report = { clocks: Uint32Array.of(3, 3), parameters: Uint32Array.of(1, 2), numbers: Uint32Array.of(5, 6) };

export const CLOCKS: FunctionFamily = {
  title: "Clocks",
  about: "A worker calls them on every server (protocol.md, §10d; consistency.md, W5 to W8).",
  functions: [
    documented(clockJoin, {
      about: "Joins the clock set of this server, or joins it anew.",
      request: {
        parameters: "the numbers of the parameters that this worker has pushed to",
        numbers: "beside each, the number of its last push to it; both lists are empty before the first push",
      },
      response: {
        clock: "where the worker stands on this server",
        lost: "clocks of which its sync updates were dropped here because it was taken for dead, each told once",
      },
      errors: ["BAD_REQUEST", "NODE_DEAD", "FENCED"],
      example: {
        request: { parameters: Uint32Array.of(1), numbers: Uint32Array.of(5) },
        response: { clock: 3, lost: Uint32Array.of(1, 2) },
      },
    }),
    documented(clockAdvance, {
      about:
        "CLOCK: the worker has finished all clocks before this one. It leaves behind all that the worker sent before. A clock that the server knows already changes nothing.",
      request: {
        clock: "where the worker stands from now on",
        leaves:
          "whether the worker leaves the clock set of this server as well, having finished the clock at which it stood there: nobody waits for it until it joins again, and it is no error if it is no member",
        ...reportWords,
      },
      response: {},
      errors: ["BAD_REQUEST", ...MEMBER_ERRORS],
      example: { request: { clock: 4, leaves: false, ...report }, response: {} },
    }),
    documented(clockAwaited, {
      about:
        "A server tells a worker that reads of it, or syncs of an SSP group, have waited for clocks for more than 5 s, once for each clock that they wait for. The worker writes it to its log.",
      request: { waits: "what they wait for, in words: the clock, and the slowest workers with theirs" },
      response: {},
      errors: [],
      example: { request: { waits: "at clock 5 for the slowest to reach clock 4: worker 1 at clock 2" }, response: {} },
    }),
  ],
};

const GROUP = "a number that the workers agree on; as a key it has a part, whose owner is asked";

export const GROUPS: FunctionFamily = {
  title: "Groups of workers",
  about:
    "SSP groups and partial reduce (consistency.md, G1 to G4 and Q1 to Q5). The owner of a group's key (protocol.md, P1) serves it, and the group goes with its part: a call names the epoch by which it was cut, and one that waits when the part leaves gets WRONG_EPOCH.",
  functions: [
    documented(sspSync, {
      about:
        "With a `size`: makes the worker a member of an SSP group, and answers where it starts. With 0: answered when no member is further behind `version` than the tolerance; 10 minutes at most.",
      request: {
        group: GROUP,
        size: "how many members it has; 0: the worker is a member, and synchronizes",
        tolerance: "of a worker that becomes a member: how many versions a member may be ahead of the slowest",
        version: "of a worker that synchronizes: where it stands, a whole number",
      },
      response: { version: "where the worker starts, or stands" },
      errors: ["NO_ROUTE", "BAD_ARGUMENT", "BAD_REQUEST", "NODE_DEAD", "FENCED", "DEADLINE", "QUEUE_FULL"],
      example: { request: { group: 5n, size: 2, tolerance: 1, version: 0 }, response: { version: 3 } },
    }),
    documented(partialReducePartners, {
      about: "Answered when so many workers have come, or when the patience of the first one ends.",
      request: { group: GROUP, want: "how many members are wanted", patienceMs: "how long the first one waits" },
      response: { ranks: "those who met, ascending, the caller among them" },
      errors: ["BAD_ARGUMENT", "ABORTED", "NODE_DEAD", "FENCED", "QUEUE_FULL"],
      example: { request: { group: 6n, want: 2, patienceMs: 50 }, response: { ranks: Uint32Array.of(0, 1) } },
    }),
  ],
};
