// set-values — serves values that replace those of a tensor's block or of rows of a table (contracts/set-values.ts).

import { rowsSet, tensorSet } from "../../contracts/set-values.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const SET_VALUE_HANDLERS: readonly ServedFunction[] = [
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
