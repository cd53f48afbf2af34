// built-in-functions — the PS functions that every server has.

import { checkpointFunction, parameterLoad, parameterSave } from "../checkpoint/checkpoint-function.ts";
import type { PsFunction } from "../ps-function.ts";
import { cachePush, cachePushSync, cacheSync } from "./cache-functions.ts";
import { clockAdvance, clockJoin, clockLeave, clockWait } from "./clock-functions.ts";
import { consistencyChange, consistencySurvey } from "./consistency-functions.ts";
import { dataPull, dataPush } from "./data-functions.ts";
import { rowsPullEncoded, rowsPushEncoded } from "./encoded-rows-functions.ts";
import {
  tensorPullEncoded,
  tensorPullRowsEncoded,
  tensorPushEncoded,
  tensorPushPullEncoded,
  tensorPushRowsEncoded,
} from "./encoded-tensor-functions.ts";
import { partialReducePartners, sspInit, sspSync } from "./group-functions.ts";
import {
  parameterClear,
  parameterConfigure,
  parameterCreate,
  parameterList,
  parameterNonFinite,
  parameterOrigin,
} from "./parameter-functions.ts";
import { rawRowsClaim, rawRowsRead, rawRowsSync, rawRowsWrite } from "./raw-rows-functions.ts";
import { rowsElsewhere } from "./rows-elsewhere.ts";
import { rowsPull } from "./rows-pull.ts";
import { rowsPush } from "./rows-push.ts";
import { rowsPushPull } from "./rows-push-pull.ts";
import { tensorPull } from "./tensor-pull.ts";
import { tensorPullRows } from "./tensor-pull-rows.ts";
import { tensorPush } from "./tensor-push.ts";
import { tensorPushPull } from "./tensor-push-pull.ts";
import { tensorPushPullRows } from "./tensor-push-pull-rows.ts";
import { tensorPushRows } from "./tensor-push-rows.ts";
import { tensorPushRowsPull } from "./tensor-push-rows-pull.ts";
import { tensorStart } from "./tensor-start.ts";

export const BUILT_IN_FUNCTIONS: readonly PsFunction[] = [
  cachePush,
  cachePushSync,
  cacheSync,
  checkpointFunction,
  clockAdvance,
  clockJoin,
  clockLeave,
  clockWait,
  consistencyChange,
  consistencySurvey,
  dataPull,
  dataPush,
  parameterClear,
  parameterConfigure,
  parameterCreate,
  parameterList,
  parameterLoad,
  parameterNonFinite,
  parameterOrigin,
  parameterSave,
  partialReducePartners,
  rawRowsClaim,
  rawRowsRead,
  rawRowsSync,
  rawRowsWrite,
  rowsElsewhere,
  rowsPull,
  rowsPullEncoded,
  rowsPush,
  rowsPushEncoded,
  rowsPushPull,
  sspInit,
  sspSync,
  tensorPull,
  tensorPullEncoded,
  tensorPullRows,
  tensorPullRowsEncoded,
  tensorPush,
  tensorPushEncoded,
  tensorPushPull,
  tensorPushPullEncoded,
  tensorPushPullRows,
  tensorPushRows,
  tensorPushRowsEncoded,
  tensorPushRowsPull,
  tensorStart,
];
