// parameter-settings — what may change about a parameter while training goes on, as it comes over the wire.

import { WeighbridgeError } from "../../base/errors.ts";
import { type ResolvedSchedule, resolveSchedule } from "../../store/updaters/learning-rate-schedule.ts";

export type DecodedSettings = {
  readonly learningRate: number | undefined;
  readonly schedule: ResolvedSchedule | undefined;
  /** Undefined: as it is. Infinity: any number of clocks. */
  readonly staleness: number | undefined;
};

/** Throws BAD_REQUEST, or BAD_ARGUMENT for a schedule that cannot be. */
export function decodeSettings(json: string): DecodedSettings {
  let value: Readonly<Record<string, unknown>>;
  try {
    value = JSON.parse(json) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", "the settings of a parameter are no JSON", { cause });
  }
  const { learningRate, schedule, staleness } = value;
  if (learningRate !== undefined && !(typeof learningRate === "number" && Number.isFinite(learningRate))) {
    throw new WeighbridgeError("BAD_REQUEST", `a learning rate is a number, not ${JSON.stringify(learningRate)}`);
  }
  if (staleness !== undefined && staleness !== "any" && !(Number.isSafeInteger(staleness) && (staleness as number) >= 0)) {
    throw new WeighbridgeError("BAD_REQUEST", `a staleness is a whole number of clocks, not ${JSON.stringify(staleness)}`);
  }
  return {
    learningRate: learningRate as number | undefined,
    schedule: schedule === undefined ? undefined : resolveSchedule(schedule),
    staleness: staleness === "any" ? Infinity : (staleness as number | undefined),
  };
}
