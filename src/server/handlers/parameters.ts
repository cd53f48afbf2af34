// parameters — serves what makes, changes, lists and clears the parameters of this server (contracts/parameters.ts),
// and what workers report of the iterations that their consistency goes by (contracts/clocks.ts).

import { badRequest } from "../../base/errors.ts";
import { checkColumns, endClock } from "../../consistency/update-rounds.ts";
import { clockAdvance, clockJoin } from "../../contracts/clocks.ts";
import {
  type ParameterSize,
  parameterClear,
  parameterConfigure,
  parameterCreate,
  parameterSize,
  parameterState,
} from "../../contracts/parameters.ts";
import { decodeMode } from "../../store/training-state.ts";
import { decodeSettings } from "../parameters/hosted-parameter.ts";
import { TableParameter } from "../parameters/table-parameter.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";

type SizeRequest = { readonly parameter: number; readonly keys: BigUint64Array };

/** Counts are kept: only keys are looked up. Throws UNKNOWN_PARAMETER, UNSUPPORTED for keys of a tensor, ARENA_FULL. */
export function sizeOf({ parameters, ownership }: Pick<ServerContext, "parameters" | "ownership">, request: SizeRequest): ParameterSize {
  const { parameter: number, keys } = request;
  const parameter = keys.length === 0 ? parameters.get(number) : parameters.table(number);
  const { usedBytes: bytes } = parameter.store;
  if (parameter instanceof TableParameter) return { count: parameter.store.rowCount, bytes, found: parameter.store.whichExist(keys) };
  const owns = (block: number): boolean => ownership.ownsBlock(number, block);
  return { count: parameter.store.shape.floatsOfAll(owns), bytes, found: new Uint8Array(0) };
}

export const PARAMETER_HANDLERS: readonly ServedFunction[] = [
  serve(parameterCreate, {
    handler: ({ parameters }, { parameter, edition, spec }) => {
      parameters.create(spec, { number: parameter, edition });
      return { plugIns: JSON.stringify(parameters.plugInsOf(spec)) };
    },
    again: ({ parameters }, { spec }) => ({ plugIns: JSON.stringify(parameters.plugInsOf(spec)) }),
  }),
  serve(parameterState, {
    handler: ({ parameters, holder }, { parameter: number, name }) => {
      const { isRestored, pace, nonFinite } = parameters.get(number, name);
      return { isRestored, ...pace.survey, ...nonFinite, waits: parameters.pacer.lot.describe(holder.worker, number) ?? "" };
    },
  }),
  serve(parameterSize, { handler: (context, request) => sizeOf(context, request) }),
  serve(parameterClear, {
    handler: ({ parameters, holder }, { parameter, edition, pushNumber }) => {
      if (parameters.clear(parameter, edition)) parameters.pacer.pushes.rise(holder, parameter, pushNumber);
      return {};
    },
  }),
  serve(parameterConfigure, {
    handler: ({ parameters, holder }, { parameter: number, settings, consistency, clock, turn }) => {
      const parameter = parameters.get(number);
      const decoded = settings === "" ? undefined : decodeSettings(settings);
      const mode = consistency === "" ? undefined : decodeMode(consistency);
      if (mode !== undefined && turn === 0) throw badRequest("a change of a consistency has a turn from 1 up");
      const from = mode === undefined ? 0 : parameter.change({ mode, clock, turn, worker: holder.worker });
      if (decoded !== undefined) parameter.configure(decoded);
      return { clock: from };
    },
  }),
  serve(clockJoin, {
    handler: ({ parameters, holder }, numbers) => {
      checkColumns(numbers.parameters.length, numbers.numbers.length);
      // Copies: the frame is gone when a restore is over.
      const known = { parameters: numbers.parameters.slice(), numbers: numbers.numbers.slice() };
      const { pacer } = parameters;
      const join = (): { readonly clock: number; readonly lost: Uint32Array } => {
        const clock = pacer.join(holder, known);
        return { clock, lost: Uint32Array.from(pacer.takeLost(holder)) };
      };
      const restored = parameters.whenRestored();
      return restored === undefined ? join() : restored.then(join);
    },
  }),
  serve(clockAdvance, { handler: endClock }),
];
