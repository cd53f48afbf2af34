// raw-rows — serves rows of a table with all that its optimizer keeps beside them, as they are (contracts/raw-rows.ts).

import { rawRowsClaim, rawRowsRead, rawRowsWrite } from "../../contracts/raw-rows.ts";
import { encodeTraining } from "../../store/training-state.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const RAW_ROW_HANDLERS: readonly ServedFunction[] = [
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
];
