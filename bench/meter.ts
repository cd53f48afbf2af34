// meter — counts completed requests and their latencies over a span of time. The raw client and our worker use the same
// one, so that both pay the same for being measured. It allocates nothing between start and end. Reading the clock
// takes 0.1 µs, a tenth of a small request, so of many requests in flight only some are timed: all are counted, and
// latencies are those of the timed ones.
//
//   start ──warm-up──▶ first completion after it = begin ──measureMs──▶ first completion after that = end
//
// Invariants:
//   Meter.M1. Rates are counted from a completion to a completion, so a slow request is never cut in half. Both are
//       completions of timed requests; the others in between are counted.
//   Meter.M2. After `end` no request is wanted; those still in flight are drained by the caller and not counted.

import { assert } from "../src/base/assert.ts";
import { quantile } from "./statistics.ts";

export type Span = { readonly warmupMs: number; readonly measureMs: number };

/** What one process measured in one span. */
export type Figure = { readonly reqPerSec: number; readonly p50Us: number; readonly p99Us: number };

/** A power of two. Beyond it the oldest latencies are overwritten, which leaves the newest of the span. */
const SAMPLES_MAX = 1 << 19;

export class Meter {
  readonly #latenciesMs = new Float64Array(SAMPLES_MAX);
  #warmupUntil = 0;
  #measureMs = 0;
  #begin = 0;
  #end = 0;
  #rate = 0;
  #count = 0;
  /** Of those that were not timed. */
  #untimedCount = 0;

  /** `now` is `performance.now()` but in tests. */
  start({ warmupMs, measureMs }: Span, now: number = performance.now()): void {
    this.#warmupUntil = now + warmupMs;
    this.#measureMs = measureMs;
    this.#begin = 0;
    this.#end = 0;
    this.#count = 0;
    this.#untimedCount = 0;
  }

  /** Takes one completion of a request that is not timed. Returns whether another request is wanted. */
  completeUntimed(): boolean {
    this.#untimedCount++;
    return this.#end === 0;
  }

  /** Takes one completion; both times come from `performance.now()`. Returns whether another request is wanted. */
  complete(issuedAt: number, now: number): boolean {
    if (this.#end !== 0) return false;
    if (this.#begin === 0) {
      if (now < this.#warmupUntil) return true;
      this.#begin = now;
      this.#untimedCount = 0;
      return true;
    }
    this.#latenciesMs[this.#count++ & (SAMPLES_MAX - 1)] = now - issuedAt;
    if (now - this.#begin < this.#measureMs) return true;
    this.#end = now;
    this.#rate = ((this.#count + this.#untimedCount) * 1e3) / (now - this.#begin);
    return false;
  }

  figure(): Figure {
    assert(this.#end !== 0, "a figure is read after the span has ended");
    const sorted = this.#latenciesMs.subarray(0, Math.min(this.#count, SAMPLES_MAX)).sort();
    return {
      reqPerSec: this.#rate,
      p50Us: quantile(sorted, 0.5) * 1e3,
      p99Us: quantile(sorted, 0.99) * 1e3,
    };
  }
}

/**
 * Counts requests that run in bursts: only the time inside a burst, from its first request's issue to its last
 * completion, is counted.
 */
export class BurstMeter {
  readonly #latenciesMs: number[] = [];
  #busyMs = 0;
  #burstAt = 0;

  begin(now: number): void {
    this.#burstAt = now;
  }

  complete(issuedAt: number, now: number): void {
    this.#latenciesMs.push(now - issuedAt);
  }

  end(now: number): void {
    this.#busyMs += now - this.#burstAt;
  }

  figure(): Figure {
    return figureOf(this.#latenciesMs, this.#busyMs);
  }
}

/** The figure of requests that were made one after another. */
export function oneByOne(latenciesMs: readonly number[]): Figure {
  return figureOf(
    latenciesMs,
    latenciesMs.reduce((sum, latencyMs) => sum + latencyMs, 0),
  );
}

function figureOf(latenciesMs: readonly number[], busyMs: number): Figure {
  const ascending = [...latenciesMs].sort((a, b) => a - b);
  return {
    reqPerSec: (ascending.length * 1e3) / busyMs,
    p50Us: quantile(ascending, 0.5) * 1e3,
    p99Us: quantile(ascending, 0.99) * 1e3,
  };
}

/** Figures of workers that ran side by side: rates add up, medians are averaged, the worst tail counts. */
export function together(figures: readonly Figure[]): Figure {
  return {
    reqPerSec: figures.reduce((sum, { reqPerSec }) => sum + reqPerSec, 0),
    p50Us: figures.reduce((sum, { p50Us }) => sum + p50Us, 0) / figures.length,
    p99Us: Math.max(...figures.map(({ p99Us }) => p99Us)),
  };
}
