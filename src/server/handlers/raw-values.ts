// raw-values — serves values as they are (contracts/raw-values.ts): rows with all that their optimizer keeps beside
// them, and values that replace those of a tensor's block or of rows.

import { rawRowsClaim, rawRowsRead, rawRowsWrite, rowsSet, tensorSet } from "../../contracts/raw-values.ts";
import { encodeTraining } from "../../store/training-state.ts";
import { type ServedFunction, serve } from "../server-context.ts";

export const RAW_VALUE_HANDLERS: readonly ServedFunction[] = [
  serve(rawRowsRead, {
    inPlace: true,
    handler: ({ parameters, ownership }, { parameter, keys }, call) => {
      const table = parameters.table(parameter);
      ownership.checkKeys(keys);
      return { rows: table.readRaw(keys, call) };
    },
  }),
  serve(rawRowsWrite, {
    inPlace: true,
    handler: ({ parameters, ownership, holder }, { parameter, ...write }) => {
      const table = parameters.table(parameter);
      ownership.checkKeys(write.keys);
      table.writeRaw({ holder, ...write });
      return {};
    },
  }),
  serve(rawRowsClaim, {
    handler: ({ parameters }, { parameter, claim, step }) => {
      const table = parameters.table(parameter);
      if (claim !== 0) table.noteSteps(claim, step);
      return { claim: claim === 0 ? table.claim() : claim, training: JSON.stringify(encodeTraining(table.training)) };
    },
  }),
  serve(tensorSet, {
    inPlace: true,
    handler: ({ parameters, ownership, holder }, { parameter, block, values }) => {
      const tensor = parameters.tensor(parameter);
      tensor.checkSetter(holder);
      ownership.checkBlock(parameter, block);
      tensor.set(block, values);
      return {};
    },
  }),
  serve(rowsSet, {
    inPlace: true,
    handler: ({ parameters, ownership, holder }, { parameter, isStart, keys, values }) => {
      const table = parameters.table(parameter);
      table.checkSetter(holder);
      ownership.checkKeys(keys);
      return { takenCount: table.set(keys, values, isStart) };
    },
  }),
];
