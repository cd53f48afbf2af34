// 11-lda — which airports belong together? Latent Dirichlet allocation by collapsed Gibbs sampling: processes share the
// counts of words and topics in a table, three times, with reads that may be 0, 2 and 8 clocks behind. The picture
// shows what that buys.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { env } from "node:process";
import { DenseUpdateBatch, denseRow, type Table, TableGroup } from "weighbridge/tables";
import { Random } from "weighbridge/testing";
import { linePlot } from "../staleness/line-plot.ts";
import { PAUSE_MS, stragglerPause } from "../staleness/straggler.ts";
import { readCorpus } from "./flights.ts";
import { documentsLikelihood, topicsLikelihood } from "./likelihood.ts";

const CLOCKS = Number(process.argv[2] ?? 90);
const PICTURE = process.argv[3] ?? join(import.meta.dirname, "likelihood.svg");
const FLIGHTS = 40_000;
const TOPICS = 8;
const [ALPHA, BETA] = [0.2, 0.05];
/** A worker goes through all of its flights in so many clocks. */
const CLOCKS_PER_SWEEP = 3;
/** Of each run. The first one is not counted: it gives the engine time to compile. */
const STALENESS = [0, 0, 2, 8];

const integers = denseRow("i32");
const doubles = denseRow("f64");
const [INTEGERS, DOUBLES] = [0, 1];
// Tables 0 to 3, one for each run, have a row for each word, with its count for each topic, and behind them one with
// the counts of all words. The others have a row for each run and clock: those counts as all workers together have made
// them by then; and the likelihood with, behind it, when each worker ended the clock, in milliseconds.
const [HISTORY, CURVES] = [STALENESS.length, STALENESS.length + 1];

const group = new TableGroup();
group.registerRow(INTEGERS, integers);
group.registerRow(DOUBLES, doubles);
const initThread = await group.init({ numTables: CURVES + 1, numLocalAppThreads: 1 }, true);
const [worker, workers] = [Math.floor(initThread / 1000), Number(env.WEIGHBRIDGE_WORKER_COUNT)];
const { documents, words, tokens } = await readCorpus(FLIGHTS);
for (const [id, staleness] of STALENESS.entries())
  await group.createTable(id, { rowType: INTEGERS, rowCapacity: TOPICS, staleness, processCacheCapacity: words.length + 1 });
await group.createTable(HISTORY, { rowType: INTEGERS, rowCapacity: words.length * TOPICS, processCacheCapacity: CLOCKS + 1 });
await group.createTable(CURVES, { rowType: DOUBLES, rowCapacity: 1 + workers, processCacheCapacity: CLOCKS + 1 });
await group.createTableDone();

const history = group.getTableOrDie(HISTORY, integers);
const curves = group.getTableOrDie(CURVES, doubles);
const own = tokens.filter(({ document }) => document % workers === worker);
for (const run of STALENESS.keys()) await evaluate(run, await sample(run));
if (worker === 0) await show();
await group.shutDown();

/** Draws the topics of this worker's flights again and again. Returns the topics of its documents after each clock. */
async function sample(run: number): Promise<Int32Array[]> {
  const table = group.getTableOrDie(run, integers);
  const random = new Random(100 + worker);
  const ofWords = new Int32Array(words.length * TOPICS); // what this worker has made of them
  const ofDocuments = new Int32Array(documents.length * TOPICS);
  const change = new Int32Array((words.length + 1) * TOPICS);
  const count = (word: number, document: number, topic: number, by: number): void => {
    ofWords[word * TOPICS + topic]! += by;
    ofDocuments[document * TOPICS + topic]! += by;
    change[word * TOPICS + topic]! += by;
    change[words.length * TOPICS + topic]! += by;
  };
  const topicOf = own.map(() => random.below(TOPICS));
  for (const [i, { word, document }] of own.entries()) count(word, document, topicOf[i]!, 1);
  addChange(table, change);
  group.globalBarrier();
  await readCounts(table);
  const startedAt = performance.now();
  const states: Int32Array[] = [];
  for (let clock = 0; ; clock++) {
    states.push(ofDocuments.slice());
    history.denseBatchInc(rowOf(run, clock), new DenseUpdateBatch(0, ofWords.slice()));
    curves.inc(rowOf(run, clock), 1 + worker, performance.now() - startedAt);
    if (clock === CLOCKS) return states;
    const seen = await readCounts(table); // waits, if the slowest is further behind than the staleness allows
    const from = Math.floor((clock % CLOCKS_PER_SWEEP) * (own.length / CLOCKS_PER_SWEEP));
    const to = Math.floor(from + own.length / CLOCKS_PER_SWEEP);
    for (let i = from; i < to; i++) {
      const { word, document } = own[i]!;
      count(word, document, topicOf[i]!, -1);
      const topic = drawTopic(random, ofDocuments, document, (one) => {
        const [here, all] = [word * TOPICS + one, words.length * TOPICS + one];
        return (seen[here]! + change[here]! + BETA) / (seen[all]! + change[all]! + words.length * BETA);
      });
      topicOf[i] = topic;
      count(word, document, topic, 1);
    }
    await stragglerPause(worker, workers, clock);
    addChange(table, change);
    group.clock(); // what was added leaves, one sum for each column
  }
}

/** By how often the document has each topic, and how often the topic has the word. */
function drawTopic(random: Random, ofDocuments: Int32Array, document: number, shareOf: (topic: number) => number): number {
  const weights = new Float64Array(TOPICS);
  let total = 0;
  for (let topic = 0; topic < TOPICS; topic++) {
    weights[topic] = (ofDocuments[document * TOPICS + topic]! + ALPHA) * shareOf(topic);
    total += weights[topic]!;
  }
  let left = random.fraction() * total;
  for (let topic = 0; topic < TOPICS - 1; topic++) {
    left -= weights[topic]!;
    if (left < 0) return topic;
  }
  return TOPICS - 1;
}

/** All rows in one request: those that the cache has fresh enough do not travel. */
async function readCounts(table: Table<typeof integers>): Promise<Int32Array> {
  const counts = new Int32Array((words.length + 1) * TOPICS);
  for (const row of await Promise.all(Array.from({ length: words.length + 1 }, (_, word) => table.get(word)))) {
    row.toArray(counts.subarray(row.rowId * TOPICS, (row.rowId + 1) * TOPICS));
    row.release();
  }
  return counts;
}

function addChange(table: Table<typeof integers>, change: Int32Array): void {
  for (let word = 0; word <= words.length; word++) {
    const updates = change.slice(word * TOPICS, (word + 1) * TOPICS);
    if (updates.some((update) => update !== 0)) table.denseBatchInc(word, new DenseUpdateBatch(0, updates));
  }
  change.fill(0);
}

/** The likelihood after each clock, exactly: of all flights, with the topics that they had by then. */
async function evaluate(run: number, states: readonly Int32Array[]): Promise<void> {
  group.globalBarrier();
  for (const [clock, ofDocuments] of states.entries()) {
    const mine = ofDocuments.filter((_, i) => Math.floor(i / TOPICS) % workers === worker);
    curves.inc(rowOf(run, clock), 0, documentsLikelihood(mine, TOPICS, ALPHA));
    if (worker !== 0) continue;
    using row = await history.get(rowOf(run, clock));
    curves.inc(rowOf(run, clock), 0, topicsLikelihood(row.toArray(), TOPICS, BETA));
  }
  group.globalBarrier();
}

async function show(): Promise<void> {
  const series = [];
  for (const run of STALENESS.keys()) {
    if (run === 0) continue;
    const points = [];
    for (let clock = 0; clock <= CLOCKS; clock++) {
      using row = await curves.get(rowOf(run, clock));
      const [likelihood = 0, ...ms] = row.toArray();
      // When the last one had ended the clock.
      points.push({ x: Math.max(...ms) / 1000, y: likelihood / tokens.length });
    }
    const [first, last] = [points[0]!, points.at(-1)!];
    const from = `log-likelihood ${first.y.toFixed(3)} → ${last.y.toFixed(3)} per flight`;
    console.log(`staleness ${STALENESS[run]}: ${from} in ${CLOCKS} clocks and ${last.x.toFixed(2)} s`);
    series.push({ name: `staleness ${STALENESS[run]}`, points });
  }
  using row = await history.get(rowOf(STALENESS.length - 1, CLOCKS));
  const counts = row.toArray();
  for (let topic = 0; topic < TOPICS; topic++) {
    const byCount = words.map((word, i) => ({ word, count: counts[i * TOPICS + topic]! })).sort((a, b) => b.count - a.count);
    const most = byCount.slice(0, 8).map(({ word }) => word);
    console.log(`topic ${topic}: ${most.join(" ")}`);
  }
  const texts = {
    title: "Latent Dirichlet allocation: what staleness buys",
    subtitle: `${workers} processes, ${tokens.length.toLocaleString("en")} flights, ${TOPICS} topics; in every clock one process pauses for ${PAUSE_MS} ms`,
    x: "wall time (s)",
    y: "log-likelihood per flight",
  };
  await writeFile(PICTURE, linePlot(series, texts));
}

function rowOf(run: number, clock: number): number {
  return run * (CLOCKS + 1) + clock;
}
