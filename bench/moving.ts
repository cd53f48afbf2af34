// moving — what workers feel while all parts of a table go from one server to another under full load: how long no push
// is answered, how many pushes there are meanwhile, and whether every one of them counts. Scheduler, two servers and a
// worker, each its own process.
//
//   node bench/moving.ts [--rows 4194304] [--seconds 3]
//
// The table has rows of 64 floats: 4,194,304 of them are 1 GiB. The worker pushes 1,024 random rows at a time, and has
// eight such pushes under way. Parts move in steps, each of which copies some and then switches to a placement with the
// next epoch. A time without an answer in which the worker hears of a new epoch is a gap at a switch; the others are
// gaps while parts are copied.

import { parseArgs } from "node:util";
import { Session } from "../src/api/session.ts";
import { Random } from "../src/base/random.ts";
import { loadConfig } from "../src/node/config/config.ts";
import { engineFlags } from "../src/node/engine-flags.ts";
import { freePort } from "../src/node/launcher/free-port.ts";
import { nodeSessions } from "../src/node/node-sessions.ts";
import { officeOver } from "../src/node/start.ts";
import type { RosterView } from "../src/wire/roster.ts";
import type { Embedding } from "../src/worker/embedding.ts";
import { Child } from "./child.ts";
import { serveCommands } from "./command-loop.ts";
import { ForeignCpu } from "./foreign-cpu.ts";
import { quantile } from "./statistics.ts";

const DIM = 64;
const PUSH_ROWS = 1024;
const PUSHES_UNDER_WAY = 8;
/** Rows of one push, or of one read, before and after the measurement. */
const CHUNK_ROWS = 16_384;

/**
 * What pushes did between two reports: how many were answered in which time, and the longest times without an answer,
 * in all and with a new epoch in it.
 */
type Report = {
  readonly pushes: number;
  readonly seconds: number;
  readonly gapMs: number;
  readonly gapMsP99: number;
  readonly switches: number;
  readonly switchGapMs: number;
  readonly switchGapMsP50: number;
  readonly switchGapMsP99: number;
  /** Which of the switches that was, from 1. */
  readonly switchNumber: number;
  readonly copyGapMs: number;
};

type Protocol = {
  start: { request: null; reply: null };
  fill: { request: { rows: number }; reply: null };
  /** Begins with the first, and goes on until `end`. */
  report: { request: null; reply: Report };
  /** How many rows do not have what was pushed to them. */
  end: { request: null; reply: { wrong: number } };
};

/** The worker: pushes ones, and counts them by row. */
class Pusher {
  readonly #table: Embedding;
  readonly #counts: Uint32Array;
  readonly #random = new Random(7);
  readonly #ones = new Float32Array(CHUNK_ROWS * DIM).fill(1);
  #underWay: Promise<void>[] = [];
  #isOver = false;
  #answeredMs: number[] = [performance.now()];
  /** When this worker heard of new epochs. */
  #switchedMs: number[] = [];

  constructor(table: Embedding, rows: number) {
    this.#table = table;
    this.#counts = new Uint32Array(rows);
  }

  async fill(): Promise<void> {
    for (let from = 0; from < this.#counts.length; from += CHUNK_ROWS) await this.#push(rowsFrom(from, this.#counts.length));
  }

  begin(): void {
    this.#underWay = Array.from({ length: PUSHES_UNDER_WAY }, () => this.#keepPushing());
  }

  /** This worker has heard of a new epoch. */
  switched(): void {
    this.#switchedMs.push(performance.now());
  }

  report(): Report {
    const times = [...this.#answeredMs, performance.now()];
    const switches = this.#switchedMs;
    const last = this.#answeredMs.at(-1)!;
    this.#switchedMs = [];
    const [switchGaps, copyGaps]: [number[], number[]] = [[], []];
    let [switchGapMs, switchNumber] = [0, 0];
    for (let i = 1, next = 0; i < times.length; i++) {
      const gapMs = times[i]! - times[i - 1]!;
      const isSwitch = next < switches.length && switches[next]! <= times[i]!;
      while (next < switches.length && switches[next]! <= times[i]!) next++;
      (isSwitch ? switchGaps : copyGaps).push(gapMs);
      if (isSwitch && gapMs > switchGapMs) [switchGapMs, switchNumber] = [gapMs, next];
    }
    const atSwitches = (switchGaps.length > 0 ? switchGaps : [0]).sort((a, b) => a - b);
    const gaps = [...switchGaps, ...copyGaps].sort((a, b) => a - b);
    const copyGapMs = copyGaps.reduce((most, gapMs) => Math.max(most, gapMs), 0);
    this.#answeredMs = [performance.now()]; // the time that this took is no gap
    return {
      pushes: gaps.length - 1,
      seconds: (last - times[0]!) / 1000,
      gapMs: quantile(gaps, 1),
      gapMsP99: quantile(gaps, 0.99),
      switches: switches.length,
      switchGapMs,
      switchGapMsP50: quantile(atSwitches, 0.5),
      switchGapMsP99: quantile(atSwitches, 0.99),
      switchNumber,
      copyGapMs,
    };
  }

  async end(): Promise<number> {
    this.#isOver = true;
    await Promise.all(this.#underWay);
    let wrong = 0;
    for (let from = 0; from < this.#counts.length; from += CHUNK_ROWS) {
      const keys = rowsFrom(from, this.#counts.length);
      const values = await this.#table.pull(keys);
      for (let i = 0; i < keys.length; i++)
        if (values[i * DIM] !== this.#counts[from + i] || values[i * DIM + DIM - 1] !== this.#counts[from + i]) wrong++;
    }
    return wrong;
  }

  async #keepPushing(): Promise<void> {
    while (!this.#isOver) {
      const words = new Uint32Array(2 * PUSH_ROWS); // of keys, whose upper halves stay 0
      for (let at = 0; at < words.length; at += 2) words[at] = this.#random.below(this.#counts.length);
      await this.#push(new BigUint64Array(words.buffer));
      this.#answeredMs.push(performance.now());
    }
  }

  async #push(keys: BigUint64Array): Promise<void> {
    await this.#table.push(keys, this.#ones.subarray(0, keys.length * DIM));
    const words = new Uint32Array(keys.buffer);
    for (let at = 0; at < words.length; at += 2) this.#counts[words[at]!]!++;
  }
}

function rowsFrom(from: number, rowCount: number): BigUint64Array {
  return BigUint64Array.from({ length: Math.min(CHUNK_ROWS, rowCount - from) }, (_, i) => BigInt(from + i));
}

async function openOffice(switched: () => void = () => {}): Promise<Awaited<ReturnType<typeof officeOver>>> {
  let epoch = 0;
  const onRoster = ({ placement }: RosterView): void => {
    if (placement === undefined || placement.epoch === epoch) return;
    epoch = placement.epoch;
    switched();
  };
  return await officeOver(loadConfig({ env: process.env }), { sessions: nodeSessions, onRoster });
}

function beWorker(): void {
  let session: Session | undefined;
  let pusher: Pusher | undefined;
  serveCommands<Protocol>({
    async start() {
      const office = await openOffice(() => pusher?.switched());
      if (office.isWorker) session = await Session.open(office.node);
      return null;
    },
    async fill({ rows }) {
      const table = await session!.embedding("moving", { dim: DIM, optimizer: { type: "sum" } });
      pusher = new Pusher(table, rows);
      await pusher.fill();
      return null;
    },
    report() {
      const report = pusher!.report();
      if (report.pushes === 0) pusher!.begin();
      return report;
    },
    end: async () => ({ wrong: await pusher!.end() }),
  });
}

async function measure(rows: number, seconds: number): Promise<void> {
  const foreign = new ForeignCpu();
  const env = {
    DMLC_PS_ROOT_URI: "127.0.0.1",
    DMLC_PS_ROOT_PORT: String(await freePort("127.0.0.1")),
    DMLC_NUM_SERVER: "2",
    DMLC_NUM_WORKER: "1",
    WEIGHBRIDGE_LOG_LEVEL: "warn",
  };
  const child = (role: "server" | "worker", name: string): Child<Protocol> => {
    const nodeArgs = role === "worker" ? [] : engineFlags(role);
    return new Child({ name, script: new URL(import.meta.url), regime: "free", env: { ...env, DMLC_ROLE: role }, nodeArgs });
  };
  const nodes = [child("server", "server 0"), child("server", "server 1"), child("worker", "worker")];
  const worker = nodes[2]!;
  try {
    Object.assign(process.env, env, { DMLC_ROLE: "scheduler" });
    const [office] = await Promise.all([openOffice(), ...nodes.map((node) => node.ask("start", null))]);
    const scheduler = office.scheduler!;
    const sleep = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));
    await scheduler.moveTo([0]);
    await worker.ask("fill", { rows });
    await worker.ask("report", null);
    await sleep(1000);
    await worker.ask("report", null);
    await sleep(seconds * 1000);
    const before = await worker.ask("report", null);
    const beganMs = performance.now();
    let steps = 0;
    await scheduler.moveTo([1], { onProgress: () => steps++ });
    const tookSeconds = (performance.now() - beganMs) / 1000;
    const during = await worker.ask("report", null);
    await sleep(seconds * 1000);
    const after = await worker.ask("report", null);
    const { wrong } = await worker.ask("end", null);
    const rate = ({ pushes, seconds: took }: Report): number => pushes / took;
    const text = (name: string, report: Report): string =>
      `${name}: ${rate(report).toFixed(0)} pushes/s of ${PUSH_ROWS} rows, longest gap ${report.gapMs.toFixed(1)} ms, p99 ${report.gapMsP99.toFixed(1)} ms`;
    console.log(text("before", before));
    console.log(`${text("moving", during)}; ${(rate(during) / rate(before)).toFixed(2)} of before`);
    const { switches, switchGapMs, switchGapMsP50, switchGapMsP99, switchNumber, copyGapMs } = during;
    const longest = `p50 ${switchGapMsP50.toFixed(1)}, p99 ${switchGapMsP99.toFixed(1)}, longest ${switchGapMs.toFixed(1)} ms (number ${switchNumber})`;
    console.log(`gaps at ${switches} switches: ${longest}; longest while copying ${copyGapMs.toFixed(1)} ms`);
    console.log(text("after", after));
    const moved = (rows * DIM * 4) / 2 ** 20;
    console.log(`moved ${moved.toFixed(0)} MiB in ${tookSeconds.toFixed(1)} s and ${steps - 1} steps; ${wrong} of ${rows} rows are wrong`);
  } finally {
    await Promise.all(nodes.map((node) => node.close()));
  }
  const share = foreign.share();
  if (share !== undefined) console.log(`foreign CPU ${(share * 100).toFixed(1)} %`);
  process.exit(0); // the scheduler would wait for its nodes
}

if (process.env.DMLC_ROLE === undefined) {
  const { values } = parseArgs({ options: { rows: { type: "string", default: "4194304" }, seconds: { type: "string", default: "3" } } });
  await measure(Number(values.rows), Number(values.seconds));
} else beWorker();
