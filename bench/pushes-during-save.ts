// pushes-during-save — reports how long pushes take while nothing is saved, and while a checkpoint is. One push at a
// time, each awaited: its time is from call to answer.

import type { Session } from "../src/api/session.ts";

export type SavedPushes = {
  readonly session: Session;
  /** How long pushes are measured without a save. */
  readonly seconds: number;
  /** What a push has so many of: rows or keys. */
  readonly unit: string;
  readonly unitsPerPush: number;
  /**
   * Draws what the push of this round carries; returns what sends it and waits for the answer, which alone is timed.
   */
  readonly draw: (round: number) => () => Promise<void>;
  /** What is saved, in words. */
  readonly contents: string;
};

/** Writes a line for each phase: warm up, without a save, the save, during it. */
export async function reportPushes(pushes: SavedPushes): Promise<void> {
  const { session, seconds, contents } = pushes;
  await report("warm up", pushes, after(Math.min(1, seconds)));
  await report("without a save", pushes, after(seconds));
  let isSaved = false;
  const began = performance.now();
  const saving = session.checkpoint({ keep: 1 }).saved.finally(() => {
    isSaved = true;
  });
  saving.catch(() => {}); // It is awaited below.
  await report("during a save", pushes, () => isSaved);
  const { path } = await saving;
  console.log(`saved ${path}: ${contents}, ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

async function report(phase: string, { unit, unitsPerPush, draw }: SavedPushes, isOver: () => boolean): Promise<void> {
  const times: number[] = [];
  const began = performance.now();
  for (let round = 0; !isOver(); round++) {
    const push = draw(round);
    const from = performance.now();
    await push();
    times.push(performance.now() - from);
  }
  const rate = ((times.length * unitsPerPush) / (performance.now() - began) / 1000).toFixed(2);
  const sorted = times.sort((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(2);
  const figures = `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, p99.9 ${at(0.999)} ms, max ${at(1)} ms`;
  console.log(`${phase}: ${times.length} pushes, ${rate} M ${unit}/s, ${figures}`);
}

function after(seconds: number): () => boolean {
  const end = performance.now() + 1000 * seconds;
  return () => performance.now() > end;
}
