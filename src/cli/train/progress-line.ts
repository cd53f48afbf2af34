// progress-line — how far a training is, in one line: a bar and facts. If there is no room for all of it, the bar
// becomes shorter first, then the least important facts are dropped. Pure.

import { barText, number } from "../terminal-text.ts";

/** Where the time of all workers went; together 1. */
export type TimeShares = {
  readonly computing: number;
  readonly sending: number;
  /** Waiting for servers and the links to them. */
  readonly servers: number;
  /** Waiting for other workers. */
  readonly workers: number;
};

/** What all workers have done together. */
export type Standing = {
  readonly sampleCount: number;
  readonly sampleTotal: number;
  readonly stepTotal: number;
  readonly batchSize: number;
  readonly seconds: number;
  readonly times: TimeShares;
  readonly loss: number;
  readonly epoch: number;
  readonly epochs: number;
  /** Steps a second of one process, if it is known. */
  readonly aloneRate?: number | undefined;
};

const BAR_CHARS: readonly number[] = [24, 16, 8, 0];
const MARGIN = "  ";
const SECONDS_MAX = 100;

/** In display order; the fact of the highest rank is dropped first. */
type Fact = { readonly text: string; readonly rank: number };

export function progressFacts(standing: Standing): readonly Fact[] {
  const { sampleCount, sampleTotal, stepTotal, batchSize, seconds, times, loss, epoch, epochs, aloneRate } = standing;
  const step = sampleCount === sampleTotal ? stepTotal : Math.ceil(sampleCount / batchSize);
  const left = ((sampleTotal - sampleCount) / sampleCount) * seconds;
  const rate = sampleCount / batchSize / seconds;
  return [
    { text: `step ${number(step).padStart(number(stepTotal).length)}/${number(stepTotal)}`, rank: 0 },
    { text: sampleCount === sampleTotal ? "done" : `${secondsText(left)} left`, rank: 1 },
    { text: `${rateText(rate)} steps/s${comparedText(rate, aloneRate)}`, rank: 3 },
    { text: timesText(times), rank: 2 },
    { text: `loss ${lossText(loss, 3)}`, rank: 5 },
    ...(epochs > 1 ? [{ text: `epoch ${epoch}/${epochs}`, rank: 4 }] : []),
  ];
}

/** ", 1.31 of one process", if that was measured. */
export function comparedText(rate: number, aloneRate: number | undefined): string {
  return aloneRate === undefined ? "" : `, ${(rate / aloneRate).toFixed(2)} of one process`;
}

/** "compute 61 send 4 servers 22 workers 13 %", without what is less than half a percent. */
function timesText({ computing, sending, servers, workers }: TimeShares): string {
  const shares = [
    ["compute", computing],
    ["send", sending],
    ["servers", servers],
    ["workers", workers],
  ] as const;
  const shown = shares.map(([what, share]) => [what, Math.round(100 * share)] as const).filter(([, whole]) => whole > 0);
  return `${shown.map(([what, whole]) => `${what} ${whole}`).join(" ")} %`;
}

/** Fewer than `columns` characters. `bar` is empty if there is no room for one. */
export function fitProgress(share: number, facts: readonly Fact[], columns: number): { readonly bar: string; readonly text: string } {
  let kept = facts;
  for (;;) {
    const text = kept.map((fact) => MARGIN + fact.text).join("");
    const barChars = BAR_CHARS.find((chars) => (chars === 0 ? 0 : MARGIN.length + chars) + text.length < columns);
    if (barChars !== undefined) return { bar: barChars === 0 ? "" : MARGIN + barText(share, barChars), text };
    const least = Math.max(...kept.map(({ rank }) => rank));
    kept = kept.filter(({ rank }) => rank !== least);
  }
}

export function lossText(loss: number, digits = 6): string {
  return loss < 1e6 ? loss.toFixed(digits) : loss.toExponential(digits);
}

export function rateText(perSecond: number): string {
  return perSecond >= 100 ? number(Math.round(perSecond)) : perSecond.toPrecision(2);
}

function secondsText(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  if (seconds < SECONDS_MAX) return `${Math.ceil(seconds)} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < SECONDS_MAX ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
