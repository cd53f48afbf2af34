// Goal: a logger that is handed in gets every line that its level lets through, called as pino's is, and nothing of
// ours depends on what it does.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { Logger } from "../base/log.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { connect } from "./connect.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";
import { defaultLevelOf, loggerLog } from "./logger-log.ts";

type Line = readonly [level: string, fields: Readonly<Record<string, unknown>>, message: string];

/** As pino's: each method needs its logger, and takes the fields first. */
class RecordingLogger implements Logger {
  readonly lines: Line[] = [];
  debug(fields: object, message: string): void {
    this.#add("debug", fields, message);
  }
  info(fields: object, message: string): void {
    this.#add("info", fields, message);
  }
  warn(fields: object, message: string): void {
    this.#add("warn", fields, message);
  }
  error(fields: object, message: string): void {
    this.#add("error", fields, message);
  }
  #add(level: string, fields: object, message: string): void {
    this.lines.push([level, { ...fields }, message]);
  }
}

test("a line is called with its fields first, with the node that says it, from the limit on", () => {
  const logger = new RecordingLogger();
  const log = loggerLog(logger, { level: "info", who: () => "worker 3" });
  log.debug("not this one");
  log.info("began");
  log.warn("slow", { node: "server 1", waitedMs: 12, unknown: undefined });
  assert.deepEqual(logger.lines, [
    ["info", { weighbridge: "worker 3" }, "began"],
    ["warn", { weighbridge: "worker 3", node: "server 1", waitedMs: 12 }, "slow"],
  ]);
});

test("a logger with a level of its own gets everything unless logLevel is given; one without gets info", () => {
  assert.equal(defaultLevelOf(Object.assign(new RecordingLogger(), { level: "warn" })), "debug");
  assert.equal(defaultLevelOf(new RecordingLogger()), "info");
  assert.equal(defaultLevelOf(console), "info");
});

test("a logger that throws breaks nothing, and is told once", async () => {
  const broken: Logger = {
    ...{ debug() {}, info() {}, error() {} },
    warn() {
      throw new Error("the disk is full");
    },
  };
  const log = loggerLog(broken, { level: "info", who: () => "worker 3" });
  const told = once(process, "warning");
  log.warn("first");
  log.warn("second");
  const [warning] = (await told) as [Error];
  assert.match(
    `${warning.name}: ${warning.message}`,
    /^WeighbridgeLoggerWarning: the logger has thrown: the disk is full; the line was: first$/,
  );
});

test("what is no logger is refused, with what it lacks", async () => {
  const loose = {
    start: EmbeddedCluster.start as (options: object) => Promise<unknown>,
    connect: connect as (options: object) => Promise<unknown>,
  };
  const { debug, info } = console;
  for (const join of [loose.start, loose.connect]) {
    await assert.rejects(join({ logger: { debug, info } }), throwsCode("BAD_ARGUMENT", /called as pino's; it has no warn, error/));
    for (const wrong of [null, 5, "console"])
      await assert.rejects(join({ logger: wrong }), throwsCode("BAD_ARGUMENT", /must be an object with debug, info, warn, error/));
    await assert.rejects(join({ loger: console }), (error: Error) => /did you mean logger\?/.test(error.message));
  }
  await assert.rejects(loose.start({ logLevel: "info" }), throwsCode("BAD_ARGUMENT", /this cluster has none: hand in a logger/));
  await assert.rejects(loose.start({ logger: console, logLevel: "inof" }), throwsCode("BAD_ARGUMENT", /got "inof"; did you mean info\?/));
});

test("a cluster inside the process that starts, grows and closes warns of nothing", async () => {
  for (const servers of [1, 2]) {
    const logger = new RecordingLogger();
    const cluster = await EmbeddedCluster.start({ servers, workers: 2, arenaBytesMax: 2 ** 26, logger });
    await cluster.scale(servers + 1, { timeoutMs: 60_000 });
    await cluster.close();
    const severe = logger.lines.filter(([level]) => level === "warn" || level === "error");
    assert.deepEqual(severe, [], `${servers} servers`);
  }
});

test("the nodes of a cluster inside the process log to its own logger, and two clusters to two", async () => {
  const [first, second] = [new RecordingLogger(), new RecordingLogger()];
  await using one = await EmbeddedCluster.start({ logger: first, logLevel: "debug" });
  const before = first.lines.length;
  await using other = await EmbeddedCluster.start({ servers: 2, logger: second, logLevel: "debug" });
  assert.equal(first.lines.length, before, "the second cluster says nothing to the first one's logger");
  await Promise.all([one.close(), other.close()]);
  const nodesOf = ({ lines }: RecordingLogger): string[] => [...new Set(lines.map(([, { weighbridge }]) => String(weighbridge)))].sort();
  assert.ok(nodesOf(first).includes("scheduler"), String(nodesOf(first)));
  assert.deepEqual(
    nodesOf(second).filter((node) => node.startsWith("server")),
    ["server 0", "server 1"],
    String(nodesOf(second)),
  );
});
