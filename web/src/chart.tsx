// Charts over time with axes, on uPlot: limits as dashed lines, events as marks, one crosshair for all.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock, number, quantity, short, size } from "./format";
import { theme } from "./theme";
import { describe } from "./parts";
import type { ServiceEvent } from "./types";

export interface Series {
  label: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  unit: string;
  times: number[];
  series: Series[];
  limit?: number | null;
  marks?: ServiceEvent[];
  /** Seconds that the time axis covers at most; without it, all points. */
  span?: number | null;
}

/** Pixels of one `rem`: text of a wall screen is larger. */
const rem = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize);
const height = (): number => Math.round(11.8 * rem());
const AXIS_MIN_S = 60;
const sync = uPlot.sync("ttmon");

/** Steps of bytes are powers of two, and all others nice decimal numbers. */
const increments = (unit: string): number[] | undefined =>
  unit.startsWith("B") ? Array.from({ length: 50 }, (_, power) => 2 ** power) : undefined;

/** `step` is between two labels, which must differ. */
function axisText(unit: string, value: number, step: number): string {
  if (unit === "B" || unit === "B/s") return bytesAt(value, step) + unit.slice(1);
  if (unit === "MHz" || unit === "rpm") return number(value);
  if (unit === "ratio") return `${Math.round(value * 100)}%`;
  return short(value).replace(".0 ", " ");
}

function bytesAt(value: number, step: number): string {
  const text = size(value).replace(".0", "");
  const power = Math.floor(Math.log2(Math.max(value, 1)) / 10);
  const digits = Math.ceil(-Math.log10(step / 1024 ** power));
  return power > 0 && digits > 1 ? (value / 1024 ** power).toFixed(Math.min(digits, 3)) + text.replace(/[\d.]+/, "") : text;
}

/** Dashed line at the limit, thin lines at the events. */
function decorations(props: () => Props) {
  return (plot: uPlot) => {
    const { limit, marks = [], unit } = props();
    const { ctx, bbox } = plot;
    const colours = theme.value;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = devicePixelRatio;
    const line = (x0: number, y0: number, x1: number, y1: number, colour: string, dash: number[]) => {
      ctx.strokeStyle = colour;
      ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
    };
    if (limit != null) {
      const y = plot.valToPos(limit, "y", true);
      // A clock at its limit is as it should be.
      line(bbox.left, y, bbox.left + bbox.width, y, unit === "MHz" ? colours.dim : colours.bad, [6, 4]);
    }
    for (const mark of marks) {
      const x = plot.valToPos(Date.parse(mark.time) / 1000, "x", true);
      line(x, bbox.top, x, bbox.top + bbox.height, mark.event === "state" || mark.event === "health" ? colours.warn : colours.dim, [2, 3]);
    }
    ctx.restore();
  };
}

/** The range of the data, with the limit if that is near. */
function range(limit: number | null) {
  return (_: uPlot, min: number | null, max: number | null): [number, number] => {
    if (min == null || max == null) return [0, limit ?? 1];
    const top = limit != null && max > limit * 0.6 ? Math.max(max, limit * 1.05) : max;
    const low = min > top * 0.6 ? Math.max(0, min - Math.max((top - min) * 0.3, top * 0.08)) : 0;
    return [low, top + (top - low) * 0.08 || 1];
  };
}

function timeRange({ span, times, series }: Props, min: number, max: number): [number, number] {
  const end = times.at(-1);
  if (!span || end === undefined) return [min, max];
  // Of a service that has just started there is less: then what there is.
  const first = times.find((_, index) => series.some(({ values }) => values[index] != null)) ?? end;
  return [Math.min(end - AXIS_MIN_S, Math.max(end - span, first)), end];
}

function options(latest: () => Props, width: number): uPlot.Options {
  const props = latest();
  const colours = theme.value;
  const { unit } = props;
  const unitPixels = rem();
  const axis = { stroke: colours.dim, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font: `${Math.round(unitPixels * 0.78)}px system-ui, sans-serif` };
  const hues = [colours.line, colours.warn, colours.good, colours.bad];
  return {
    width,
    height: height(),
    legend: { show: false },
    cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { range: (_, min, max) => timeRange(latest(), min, max) }, y: { range: range(props.limit ?? null) } },
    axes: [
      { ...axis, size: unitPixels * 1.85, values: ((props.span ?? 0) >= 3600 ? "{HH}:{mm}" : "{HH}:{mm}:{ss}") as never, space: unitPixels * 5 },
      { ...axis, size: unitPixels * 4.1, space: unitPixels * 2.3, values: (_, values) => values.map((value) => axisText(unit, value, (values[1] ?? value * 2) - values[0]!)), ...(increments(unit) ? { incrs: increments(unit)! } : {}) },
    ],
    series: [
      {},
      ...props.series.map((series, index) => ({
        label: series.label,
        stroke: hues[index % hues.length]!,
        fill: props.series.length === 1 ? colours.area : (undefined as unknown as string),
        width: 1.5,
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: { draw: [decorations(latest)], setCursor: [showValues(latest)] },
  };
}

/** The values under the crosshair, in the heading of the chart. */
function showValues(props: () => Props) {
  return (plot: uPlot) => {
    const output = plot.root.closest("figure")?.querySelector(".at");
    if (!output) return;
    const { times, series, unit, marks } = props();
    const index = plot.cursor.idx;
    const time = index == null ? undefined : times[index];
    if (index == null || time === undefined) {
      output.textContent = "";
      return;
    }
    const step = times[1]! - times[0]!;
    const near = marks?.find((mark) => Math.abs(Date.parse(mark.time) / 1000 - time) < step * 4);
    output.textContent = `${valuesAt(series, index, unit)} at ${clock(time * 1000)}${near ? ` · ${describe(near)}` : ""}`;
  };
}

function valuesAt(series: Series[], index: number, unit: string): string {
  return series.map(({ label, values }) => `${series.length > 1 ? `${label} ` : ""}${quantity(values[index], unit)}`).join("  ");
}

function newest({ series }: Props): number {
  let at = series[0]?.values.length ?? 0;
  while (at > 0 && series.every(({ values }) => values[at] == null)) at -= 1;
  return at;
}

export function Chart(props: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [props.times, ...props.series.map(({ values }) => values)] as uPlot.AlignedData;
  const latest = useRef(props);
  latest.current = props;
  const colours = theme.value;
  const text = useSignal(rem());
  useEffect(() => {
    const box = ref.current!;
    const made = new uPlot(options(() => latest.current, box.clientWidth || 300), data, box);
    plot.current = made;
    sync.sub(made);
    const resize = new ResizeObserver(() => {
      text.value = rem();
      if (box.clientWidth) made.setSize({ width: box.clientWidth, height: height() });
    });
    resize.observe(box);
    return () => {
      resize.disconnect();
      sync.unsub(made);
      made.destroy();
    };
  }, [props.title, props.series.length, props.limit, props.span, colours, text.value]);
  useEffect(() => plot.current?.setData(data), [props.times, props.series]);
  const at = newest(props);
  const newestText = valuesAt(props.series, at, props.unit);
  return (
    <figure class="chart" aria-label={`${props.title}: ${newestText}`}>
      <figcaption>
        <b>{props.title}</b>
        <span class="num at" aria-hidden="true" />
        <span class="num newest">{newestText}</span>
        {props.limit != null && <small class="dim">limit {quantity(props.limit, props.unit)}</small>}
      </figcaption>
      <div ref={ref} class="plot" aria-hidden="true" />
    </figure>
  );
}
