// The table, to the character.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StatusEntry, StatusReply } from "../wire/control.ts";
import { statusProblems, statusText } from "./status.ts";
import { durationText } from "./terminal-text.ts";

const REPLY: StatusReply = {
  job: "j1",
  phase: "running",
  serverCount: 1,
  workerCount: 2,
  uptimeMs: 61_000,
  nodes: [
    {
      node: 8,
      role: "server",
      rank: 0,
      address: "tcp://h:1",
      incarnation: 3,
      state: "alive",
      label: "a:1",
      heartbeatAgeMs: 1500,
      linked: true,
    },
    { node: 9, role: "worker", rank: 0, address: "", incarnation: 1, state: "alive", label: "b:2", heartbeatAgeMs: 20, linked: false },
    { node: 11, role: "worker", rank: 1, address: "", incarnation: 1, state: "dead", label: "", heartbeatAgeMs: undefined, linked: false },
  ],
  waiting: [{ role: "worker", rank: undefined, address: "", label: "c:3" }],
};

test("a server that was stopped, and one that died and comes back, are awaited, not dead", () => {
  const [server, worker] = REPLY.nodes;
  const nodes = [{ ...server!, state: "dead" as const, returns: true, linked: false }, worker!];
  const stopped = { ...REPLY, nodes: [{ ...nodes[0]!, isPlanned: true }, worker!] };
  assert.match(statusText(stopped, "tcp://s:9"), /^job .* 1 is awaited; (?:.*\n)+server\/0 +stopped, awaited, incarnation 3 /);
  assert.equal(statusProblems(stopped)[0], "server/0 was stopped, and is awaited");
  const [headline, , ...rows] = statusText({ ...REPLY, nodes }, "tcp://s:9").split("\n");
  assert.match(headline ?? "", /\(0 of 1 server, 1 of 2 workers\), 1 is awaited; /);
  assert.ok(
    rows.some((row) => /server\/0 +awaited, incarnation 3 /.test(row)),
    rows.join("\n"),
  );
});

test("a node whose loop is busy for longer than the heartbeat timeout says for how long", () => {
  const nodes = [{ ...REPLY.nodes[0]!, loopBusyMs: 12_000 }];
  assert.match(statusText({ ...REPLY, nodes }, "tcp://s:9"), /server\/0 +ready, loop busy for 12\S* s, incarnation 3 /);
  assert.deepEqual(statusProblems({ ...REPLY, nodes }), []);
});

test("workers that joined count among all, until they leave", () => {
  const worker = (rank: number, state: StatusEntry["state"]): StatusEntry => ({ ...REPLY.nodes[1]!, node: 9 + 2 * rank, rank, state });
  const nodes = [REPLY.nodes[0]!, ...[0, 1, 2].map((rank) => worker(rank, "alive")), worker(3, "dead"), worker(4, "left")];
  const [headline] = statusText({ ...REPLY, nodes }, "tcp://s:9").split("\n");
  assert.match(headline ?? "", /: 4 of 5 nodes are there \(1 of 1 server, 3 of 4 workers\), 1 is dead, 1 has left; /);
});

test("the skew of the placement is the scheduler's, and not told of one server", () => {
  const scaling = { wishedCount: 2, shares: [], queued: [], ended: [] };
  const headline = (skew: number | undefined): string => statusText({ ...REPLY, epoch: 4, scaling: { ...scaling, skew } }, "tcp://s:9");
  assert.match(headline(1.5), /; placement epoch 4, the fullest server has 1\.50 of the mean; scheduler/);
  assert.match(headline(undefined), /; placement epoch 4; scheduler/);
});

test("is a headline and an aligned table", () => {
  assert.deepEqual(statusText(REPLY, "tcp://s:9").split("\n"), [
    "job j1 is running: 2 of 3 nodes are there (1 of 1 server, 1 of 2 workers), 1 is dead; scheduler up 1 min 1 s",
    "",
    "node       state                 address  heartbeat  process",
    "scheduler  ready                 s:9              -  -",
    "server/0   ready, incarnation 3  h:1      1.5 s ago  pid 1 on a",
    "worker/0   ready, no link        -        20 ms ago  pid 2 on b",
    "worker/1   dead                  -                -  -",
    "worker     waiting               -                -  pid 3 on c",
  ]);
});

test("says that no node, or not most of them, has been heard, and since when", () => {
  const silent = (of: "all" | "most"): string[] => statusText({ ...REPLY, silence: { of, forMs: 7000 } }, "tcp://s:9").split("\n");
  const line = "no node has been heard for 7.0 s: the scheduler may be cut off, and takes no node for dead for now";
  assert.deepEqual([silent("all")[1], statusProblems({ ...REPLY, silence: { of: "all", forMs: 7000 } })[0]], [line, line]);
  assert.match(silent("most")[1] ?? "", /^most nodes have not been heard for 7\.0 s: /);
});

test("shows the schedulers that stand by", () => {
  const lines = statusText({ ...REPLY, nodes: [], waiting: [], standbys: ["tcp://t:9"] }, "tcp://s:9").split("\n");
  assert.deepEqual(lines.slice(2), [
    "node       state    address  heartbeat  process",
    "scheduler  ready    s:9              -  -",
    "scheduler  standby  t:9              -  -",
  ]);
});

test("shows of each rank its head and its standby, who took over when, and which standby is missing or being filled", () => {
  const [server] = REPLY.nodes as [StatusEntry];
  const standby: StatusEntry = { ...server, role: "standby", label: "b:2", incarnation: 1 };
  const nodes = [
    { ...server, continues: 1, promotedAgoMs: 4200 },
    { ...server, node: 10, rank: 1 },
    { ...standby, node: 100, state: "left" as const },
    { ...standby, node: 102, rank: 1, isFilling: true },
  ];
  const reply = { ...REPLY, serverCount: 2, workerCount: 0, replicas: 2, epoch: 7, nodes, waiting: [] };
  assert.match(
    statusText(reply, "tcp://s:9"),
    /^job j1 is running: 3 of 4 nodes are there \(2 of 2 servers, 1 of 2 standbys, 0 of 0 workers\); placement epoch 7; scheduler up/,
  );
  const rows = statusText(reply, "tcp://s:9")
    .split("\n")
    .slice(4)
    .map((line) =>
      line
        .split(/ {2,}/)
        .map((cell) => cell.trim())
        .filter((cell) => cell !== ""),
    );
  assert.deepEqual(rows, [
    ["server/0", "ready, took over 4.2 s ago, incarnation 3", "h:1", "1.5 s ago", "pid 1 on a"],
    ["server/1", "ready, incarnation 3", "h:1", "1.5 s ago", "pid 1 on a"],
    ["standby/0", "missing", "-", "-", "-"],
    ["standby/1", "being filled", "h:1", "1.5 s ago", "pid 2 on b"],
  ]);
  assert.deepEqual(statusProblems({ ...reply, nodes: [...nodes, ...REPLY.nodes.slice(1, 2)] }).slice(0, 2), [
    "server/0 has no standby",
    "standby/1 is being filled",
  ]);
  assert.deepEqual(statusProblems(reply), ["standby/1 is being filled"], "all workers are done");
  assert.deepEqual(statusProblems({ ...reply, serves: true }), ["server/0 has no standby", "standby/1 is being filled"]);
});

test("a server whose log is not taken is shown, and is a problem, with the time for which it has held its answers back", () => {
  const [server] = REPLY.nodes as [StatusEntry];
  const reply = { ...REPLY, nodes: [{ ...server, heldMs: 12_500 }], waiting: [] };
  assert.match(statusText(reply, "tcp://s:9"), /ready, answers held back for 12\.5 s/);
  assert.deepEqual(statusProblems(reply), ["server/0 has held its answers back for 12.5 s: its log is not taken; its own output says why"]);
});

test("links that share memory are named once each, under the headline", () => {
  const nodes = REPLY.nodes.map((entry) => ({
    ...entry,
    state: "alive" as const,
    sharing: REPLY.nodes.filter((other) => other !== entry).map(({ node }) => node),
  }));
  const [first, second] = nodes.map(({ role, rank }) => `${role}/${rank}`);
  const text = statusText({ ...REPLY, nodes: nodes.slice(0, 2) }, "tcp://s:9");
  assert.match(text, new RegExp(`\nlinks that share memory: ${first} with ${second}`));
  assert.doesNotMatch(text, new RegExp(`${second} with ${first}`));
  assert.doesNotMatch(statusText(REPLY, "tcp://s:9"), /share memory/);
});

test("a server that goes on took over, was handed over, or came back", () => {
  const [server] = REPLY.nodes as [StatusEntry];
  const state = (fields: Partial<StatusEntry>): string | undefined =>
    / (ready.*?), incarnation 3 {2}/.exec(
      statusText({ ...REPLY, nodes: [{ ...server, continues: 1, ...fields }], waiting: [] }, "tcp://s:9").split("\n")[4] ?? "",
    )?.[1];
  assert.equal(state({ promotedAgoMs: 4200 }), "ready, took over 4.2 s ago");
  assert.equal(state({ promotedAgoMs: 4200, isPlanned: true }), "ready, handed over 4.2 s ago");
  assert.equal(state({ returns: true }), "ready, came back");
  assert.equal(state({}), "ready, came back");
});

test("a terminal breaks no word of the headline", () => {
  assert.deepEqual(statusText(REPLY, "tcp://s:9", 80).split("\n").slice(0, 3), [
    "job j1 is running: 2 of 3 nodes are there (1 of 1 server, 1 of 2 workers), 1 is",
    "  dead; scheduler up 1 min 1 s",
    "",
  ]);
});

test("nodes of ps-lite fit into 80 columns: what their label says of where they are is in the column for it", () => {
  const [server, worker] = REPLY.nodes as [StatusReply["nodes"][number], StatusReply["nodes"][number]];
  const nodes = [
    { ...server, address: "tcp://127.0.0.1:45499", label: "ps-lite at 127.0.0.1:45499" },
    { ...worker, address: "tcp://127.0.0.1:45500", label: "ps-lite at 127.0.0.1:45500", linked: true },
  ];
  const lines = statusText({ ...REPLY, nodes, waiting: [] }, "tcp://127.0.0.1:45498")
    .split("\n")
    .slice(2);
  assert.equal(lines[2], "server/0   ready, incarnation 3  127.0.0.1:45499  1.5 s ago  ps-lite");
  for (const line of lines) assert.ok(line.length <= 80, `${line.length} columns: ${line}`);
  const elsewhere = { ...server, address: "", label: "ps-lite at 127.0.0.1:45499" };
  assert.match(statusText({ ...REPLY, nodes: [elsewhere] }, "tcp://s:9"), /ps-lite at 127\.0\.0\.1:45499$/m, "said nowhere else");
});

test("the version of the package is in the headline where all nodes run one, and has a column where they do not", () => {
  const { nodes, waiting } = REPLY;
  const one = { packageVersion: "0.1.0" };
  const same: StatusReply = { ...REPLY, ...one, nodes: nodes.map((node) => ({ ...node, ...one })) };
  assert.match(statusText(same, "tcp://s:9"), /^job j1 .*; scheduler up 1 min 1 s, weighbridge 0\.1\.0\n/);
  const mixed: StatusReply = { ...same, waiting: waiting.map((entry) => ({ ...entry, packageVersion: "0.2.0" })) };
  const lines = statusText(mixed, "tcp://s:9").split("\n");
  assert.match(lines[0] ?? "", /scheduler up 1 min 1 s, nodes of different versions$/);
  assert.match(lines[2] ?? "", / process +weighbridge$/);
  assert.deepEqual(
    lines.slice(3).map((line) => line.match(/\S+$/)?.[0]),
    ["0.1.0", "0.1.0", "0.1.0", "0.1.0", "0.2.0"],
  );
});

test("a terminal of 40 columns breaks no word of the table, and 80 are enough for it", () => {
  for (const columns of [80, 60, 40]) {
    const [, table = ""] = statusText(REPLY, "tcp://s:9", columns).split("\n\n");
    assert.deepEqual(
      table.replaceAll("\n", " ").split(/ +/).toSorted(),
      statusText(REPLY, "tcp://s:9").split("\n").slice(2).join(" ").split(/ +/).toSorted(),
    );
  }
  const narrow = statusText(REPLY, "tcp://s:9", 52).split("\n");
  assert.ok(
    narrow.every((line) => line.length <= 52),
    narrow.join("\n"),
  );
});

test("says how many have left, and nothing of deaths when nobody died", () => {
  const nodes = REPLY.nodes.map((node) => (node.role === "worker" ? { ...node, state: "left" as const } : node));
  assert.match(
    statusText({ ...REPLY, nodes }, "tcp://s:9"),
    /: 1 of 3 nodes are there \(1 of 1 server, 0 of 2 workers\), 2 have left; sch/,
  );
});

test("while the cluster forms, who waits counts as there", () => {
  const forming: StatusReply = { ...REPLY, phase: "forming", nodes: [] };
  assert.match(statusText(forming, "tcp://s:9"), /is forming: 1 of 3 nodes are there \(0 of 1 server, 1 of 2 workers\);/);
});

test("tells durations in the unit that fits", () => {
  assert.deepEqual([0, 999, 1000, 59_940, 60_000, 3_600_000, 7_320_000].map(durationText), [
    "0 ms",
    "999 ms",
    "1.0 s",
    "59.9 s",
    "1 min 0 s",
    "1 h 0 min",
    "2 h 2 min",
  ]);
});

const node = (id: number, fields: Partial<StatusEntry> = {}): StatusEntry => ({
  ...{ node: id, role: id % 2 === 0 ? "server" : "worker", rank: 0, address: "", incarnation: 1, state: "alive", label: "" },
  ...{ heartbeatAgeMs: 20, linked: true },
  ...fields,
});
const WELL: StatusReply = {
  ...{ job: "j", phase: "running", serverCount: 1, workerCount: 2, uptimeMs: 1, waiting: [] },
  nodes: [node(9), node(11), node(8)],
};

test("a complete cluster is well, also when workers have left it, or everybody has", () => {
  const left = { state: "left", linked: false } as const;
  assert.deepEqual(statusProblems(WELL), []);
  assert.deepEqual(statusProblems({ ...WELL, nodes: [node(9, left), node(11), node(8)] }), []);
  assert.deepEqual(statusProblems({ ...WELL, nodes: [node(9, left), node(11, left), node(8, left)] }), []);
});

test("a server that has left while workers are there is missing", () => {
  const nodes = [node(9, { state: "left", linked: false }), node(11), node(8, { state: "left", linked: false })];
  assert.deepEqual(statusProblems({ ...WELL, nodes }), ["server/0 has left, and is still needed"]);
});

test("a dead node and one without a link are named", () => {
  const nodes = [node(9, { state: "dead", linked: false }), node(11, { linked: false }), node(8)];
  assert.deepEqual(statusProblems({ ...WELL, nodes }), ["worker/0 is dead", "worker/1 has no link to the scheduler"]);
});

test("a cluster that forms, and a job that has failed, are not well", () => {
  const waiting = [{ role: "server", rank: 0, address: "tcp://h:1", label: "a" }] as const;
  assert.deepEqual(statusProblems({ ...WELL, phase: "forming", nodes: [], waiting }), [
    "the cluster is not complete: 1 of 3 nodes are there",
  ]);
  assert.deepEqual(statusProblems({ ...WELL, phase: "failed" }), ["the job has failed"]);
});
