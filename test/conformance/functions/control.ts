// control — what spec/functions.md says of src/contracts/control.ts and coordination.ts.

import * as control from "../../../src/contracts/control.ts";
import * as coordination from "../../../src/contracts/coordination.ts";
import { documentedControl, type FunctionFamily } from "./documented.ts";

const PLACEMENT = "which server owns which part (protocol.md, §10c); left out while the scheduler knows of none";
const ROSTER = "everybody's slot (protocol.md, ROSTER)";
const UNIT_RUNS = "runs of units: from, to, from, to …";

export const CONTROL: FunctionFamily = {
  title: "The control plane",
  about:
    "Named by their numbers, with one JSON object each way; protocol.md (§8) says what they are for. Stamp, app, customer and command are 0.",
  functions: [
    documentedControl(control.REGISTER, {
      about: "A node registers for a slot, or says that it has one; answered when the cluster is complete.",
      request: {
        role: "of the sender: a server, its standby, or a worker; a scheduler does not register",
        rank: "that it asks for; left out: any",
        address: 'where it listens; "" if it does not',
        serverCount: "how many servers it was started for",
        workerCount: "how many workers",
        label: "a name for people",
        token: "unique to the process, hard to guess",
        packageVersion: "what it runs",
        resume: "the slot it has, and what it knows: for a scheduler that was restarted (protocol.md, C9)",
        failure: "why it cannot take its slot (protocol.md, C30)",
        copy: "of a server whose rank is held by several processes: `{replicas, host, process, settings}` (protocol.md, C6a)",
        returns: "of a server that keeps its state on a disk (protocol.md, C14c)",
      },
      response: {
        job: "NAME/RUN, for its hellos",
        node: "its number",
        incarnation: "its incarnation",
        recovery: "whether it has the slot of a node before it",
        heartbeatIntervalMs: "how often it sends a HEARTBEAT; 0: never",
        heartbeatTimeoutMs: "after how much silence a node is dead",
        counts: "`{serverCount, workerCount}` that the job began with, whatever the sender was started for",
        roster: ROSTER,
      },
      errors: ["ABORTED", "BAD_CONFIG", "COUNT_MISMATCH", "DEADLINE", "FENCED", "NO_ROUTE", "PORT_IN_USE", "RANK_TAKEN", "WRONG_JOB"],
      vectors: ["register-request", "register-reply", "register-resume-request", "register-failure-request"],
    }),
    documentedControl(control.HEARTBEAT, {
      about: "The sender lives. Every node answers at once.",
      request: {
        holdsSums: "a server has values of the kv face or data of pushData",
        standbyLost: "from the head of a replicated server: the incarnation of its standby, which does not take its log",
        standbyFilled: "from such a head: the incarnation of a standby that came later, and has everything now",
      },
      response: {},
      errors: ["FENCED", "NO_ROUTE"],
      vectors: ["heartbeat-request", "heartbeat-reply"],
    }),
    documentedControl(control.BARRIER, {
      about: "The sender stands at a barrier; answered when every member of the group does.",
      request: {
        group: "a sum of 1 scheduler, 2 servers, 4 workers",
        customer: "which of the group's barriers, up to 65,535",
        round: "one more than the last that the sender passed; 0 from one that came later and cannot know",
        outlivesDeaths: "true: the entry stays when a member dies (protocol.md, C19)",
      },
      response: { round: "that is over" },
      errors: ["ABORTED", "BAD_ARGUMENT", "NODE_DEAD", "NO_ROUTE", "FENCED"],
      vectors: ["barrier-request", "barrier-reply", "barrier-last-request"],
    }),
    documentedControl(control.LEAVE, {
      about: "The sender is done, and no longer counts.",
      request: {
        failure: "`{code, message}`: why one that has its slot cannot begin (protocol.md, C15)",
        returns: "of a server that has stopped to be started again (protocol.md, C15a)",
        unlessNeeded: "true: a server or standby stays if it alone has the state of its rank (protocol.md, C15b)",
      },
      response: { isNeeded: "true: it stays" },
      errors: ["FENCED", "NO_ROUTE"],
      vectors: ["leave-request", "leave-reply", "leave-failure-request", "leave-unless-needed-request"],
    }),
    documentedControl(control.STATUS, {
      about: "Who is there. Also for tools, which have no slot.",
      request: {},
      response: {
        job: "NAME, or NAME/RUN",
        phase: "of the job",
        serverCount: "how many servers the job has",
        workerCount: "how many workers",
        replicas: "by how many processes each server rank is held; left out: by one",
        epoch: "of the placement; left out while there is none",
        uptimeMs: "of the scheduler",
        term: "of the scheduler: each start has a higher one",
        standbys: "addresses of schedulers that take over when this one ends",
        packageVersion: "of the scheduler",
        nodes: "as in a roster, without tokens, with `heartbeatAgeMs?` and `linked`",
        waiting: "nodes without a slot: `{role, rank?, address, label, packageVersion?}`",
        leaving: "numbers of nodes that stand at the last barrier",
        guests:
          '`{node?, kind?, command?, label, hereMs?, heartbeatAgeMs, linked}`; left out: there are none. A tool has `kind` "tool", a `command` and no `node`',
      },
      errors: [],
      vectors: ["status-request", "status-reply"],
    }),
    documentedControl(coordination.UNITS, {
      about: "A worker tells which units of an epoch it has done, and is lent others (protocol.md, C21 to C26).",
      request: {
        name: "of the data",
        epoch: "from 0",
        batchCount: "batches of the epoch",
        partCount: "parts of a batch",
        assignment:
          "whether each rank has its own part, the next worker that asks gets the next, or every batch is dealt to all that are there",
        done: `${UNIT_RUNS}; done since the last answer`,
        held: "all that the worker holds",
        unused: "given back, never begun",
        want: "how many more it would like",
        waitMs: "how long the answer may wait for a unit",
        inherited: "the newest `inherited` that it knows; 0: none",
        leaves: "it takes no more part in the epoch",
        clock: "in rounds: where its clock stands when it has done all it holds",
        partsMax: "in rounds: the most parts of a batch that it has room for",
        retires: "in rounds: it is about to leave, and takes no share of rounds that are not dealt yet",
      },
      response: {
        isOver: "whether every unit is done",
        units: "lent now",
        lost: "what it holds no more",
        repeatedCount: "units that were lent again and may have been begun",
        inherited: "`{version, done, suspect}`: what a worker that died may have been alone in knowing",
        awaited: "ranks that live and have not asked for units of their own parts, or of the rounds",
        clock: "in rounds: of the first of `units`, or where to stand if there are none",
      },
      errors: ["SPEC_MISMATCH", "QUEUE_FULL", "FENCED", "NO_ROUTE"],
      vectors: ["units-request", "units-reply"],
    }),
    documentedControl(control.ROSTER, {
      servedBy: "servers and workers",
      about: "The scheduler tells a node who is there.",
      request: {
        version: "higher with every change",
        nodes: "`{node, role, rank, address, incarnation, state, label, packageVersion?, token?}`, workers by rank, then servers",
        guests: "for servers and standbys: `{node, token}` of the guests that are there; what one left that is not listed is forgotten",
        placement: PLACEMENT,
        handedOver: "for servers and standbys: parts of placements up to this epoch are with their owners, for good",
        previous: "for servers and standbys: the placement that comes back if parts cannot be handed over; left out otherwise",
        endedGeneration: "generations of workers up to this one are over",
      },
      response: {},
      errors: [],
      vectors: ["roster-request", "roster-reply"],
    }),
    documentedControl(control.ABORT, {
      servedBy: "servers and workers",
      about: "The scheduler ends the job.",
      request: { code: "of the error with which every node ends", message: "of it" },
      response: {},
      errors: [],
      vectors: ["abort-request", "abort-reply"],
    }),
    documentedControl(control.PLACEMENT, {
      about: "Who owns what now.",
      request: {},
      response: { placement: PLACEMENT },
      errors: ["NO_ROUTE"],
      vectors: ["placement-request", "placement-reply"],
    }),
    documentedControl(coordination.GATHER, {
      about: "A worker joins the next generation of those that reduce among themselves (protocol.md, C27 to C29).",
      request: {
        step: "whether it enters, only looks, or leaves",
        address: "where it listens for the others",
        generation: "the newest that it was in; 0: none",
      },
      response: { generation: "its number", members: "by rank: `{node, incarnation}`", roster: ROSTER },
      errors: ["ABORTED", "FENCED", "NO_ROUTE"],
      vectors: ["gather-request", "gather-reply"],
    }),
    documentedControl(coordination.RENDEZVOUS, {
      about: "A worker comes to a generation of a name, and leaves with what everybody came with (protocol.md, C31 to C34).",
      request: {
        name: "of at most 256 characters",
        generation: "0, 1, 2 …",
        value: "what this worker comes with, at most 1,024 characters",
        waitMs: "how long the answer may wait for the others, 10 seconds at most",
      },
      response: {
        values: "by rank: `{rank, value}`; left out before all have come",
        missing: "ranks that have not come; left out otherwise",
      },
      errors: ["QUEUE_FULL", "FENCED", "NO_ROUTE"],
      vectors: ["rendezvous-request", "rendezvous-reply"],
    }),
    documentedControl(control.PREPARE, {
      servedBy: "servers and workers",
      about: "The placement of an epoch is about to come (protocol.md, P11).",
      request: {
        epoch: "of the placement",
        holdMs: "how long the worker waits for it at most; 0: it does not come",
        servers: "ranks of the servers that it names; left out: the same as before",
        placement: "the placement, for servers",
        roster: "the version of the roster that a server must have heard of",
        awaits:
          "the placement was published: a server answers when it has all parts that come to it (`arrival`), or serves by it (`service`)",
      },
      response: {
        leaving: "of a server: rank, bytes, rank, bytes … that leave it by the placement",
        roomBytes: "of a server: for how much more it has room",
      },
      errors: ["ARENA_FULL", "NODE_DEAD", "QUEUE_FULL", "UNSUPPORTED"],
      vectors: ["prepare-request", "prepare-reply"],
    }),
    documentedControl(coordination.RETIRE, {
      servedBy: "workers",
      about: "The server that calls it has no parts any more, and is about to leave (protocol.md, P14).",
      request: { placement: "the placement, without this server" },
      response: { openCount: "requests to this server that are neither answered nor refused" },
      errors: ["BAD_REQUEST"],
      vectors: ["retire-request", "retire-reply"],
    }),
  ],
};
