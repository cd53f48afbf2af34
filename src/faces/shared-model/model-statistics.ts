// model-statistics — what a shared model tells of itself: counts and times per key and device, and a time line in
// Chrome's trace format.

import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { DeviceTimes, KeyTimes, ModelMeter, ModelSpan } from "../../worker/level-one/model-meter.ts";

/** What a shared model has done, by device and by key. */
export type ModelStatistics = {
  /** Times are milliseconds. `computeMs`: from the end of a wait to the next; `waitMs`: within pullWait. */
  readonly devices: readonly ({ readonly device: number; readonly isLive: boolean } & DeviceTimes)[];
  /** Times are milliseconds of all threads together. */
  readonly keys: readonly ({ readonly key: number } & KeyTimes)[];
};

/** An entry of Chrome's trace format. */
export type ChromeTraceEvent = {
  readonly name: string;
  readonly cat?: "computation" | "synchronisation";
  /** "X": a span. "M": the name of a line. */
  readonly ph: "X" | "M";
  /** Microseconds. */
  readonly ts?: number;
  readonly dur?: number;
  readonly pid: number;
  /** The line: a device, a thread that reduces, level 2. */
  readonly tid: number;
  readonly args: Readonly<Record<string, number | string>>;
};
/** A time line in Chrome's trace format, for chrome://tracing or Perfetto. */
export type ChromeTrace = { readonly displayTimeUnit: "ms"; readonly traceEvents: readonly ChromeTraceEvent[] };

const PROCESS = 1;
const MICROSECONDS = 1000;

type Told = {
  readonly meter: ModelMeter;
  readonly devices: readonly number[];
  readonly isLive: (position: number) => boolean;
  readonly plans: readonly KeyPlan[];
};

export function statisticsOf({ meter, devices, isLive, plans }: Told): ModelStatistics {
  return {
    devices: devices.map((device, position) => ({ device, isLive: isLive(position), ...meter.timesOfDevice(position) })),
    keys: plans.map(({ key, index }) => ({ key, ...meter.timesOfKey(index) })),
  };
}

/**
 * Devices have a line each for what they do and wait for, then every thread one for its reduces, then every key one for
 * level 2.
 */
export function traceOf({ meter, devices, plans }: Told): ChromeTrace {
  const keyOf = new Map(plans.map(({ key, index }) => [index, key]));
  const exchangeLine = 2 * devices.length + 1;
  const lineOf = ({ kind, device, thread, keyIndex }: ModelSpan): number => {
    if (kind === "exchange") return exchangeLine + keyIndex;
    return kind === "reduce" ? devices.length + thread : device;
  };
  const spans = meter.spans();
  const events = spans.map((span): ChromeTraceEvent => {
    const key = keyOf.get(span.keyIndex);
    return {
      ...{ name: key === undefined ? span.kind : `${span.kind} key ${key}`, ph: "X", pid: PROCESS, tid: lineOf(span) },
      cat: span.kind === "compute" ? "computation" : "synchronisation",
      ...{ ts: span.fromMs * MICROSECONDS, dur: (span.toMs - span.fromMs) * MICROSECONDS },
      args: { ...(key === undefined ? {} : { key }), ...(span.device < 0 ? {} : { device: devices[span.device] as number }) },
    };
  });
  const nameOf = (line: number): string => {
    if (line < devices.length) return `device ${devices[line]}`;
    if (line >= exchangeLine) return `level 2, key ${keyOf.get(line - exchangeLine)}`;
    return line === devices.length ? "reduces of the owner" : `reduces of thread ${line - devices.length}`;
  };
  const lines = [...new Set(events.map(({ tid }) => tid))].sort((one, other) => one - other);
  const names = lines.map((tid): ChromeTraceEvent => ({ name: "thread_name", ph: "M", pid: PROCESS, tid, args: { name: nameOf(tid) } }));
  return { displayTimeUnit: "ms", traceEvents: [...names, ...events] };
}
