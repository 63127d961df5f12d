// A small chart without axes, on a canvas. Only what is on the screen is drawn.
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { past, tick } from "./store";
import { theme } from "./theme";

const visible = new WeakMap<Element, boolean>();
const redraw = new WeakMap<Element, () => void>();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    visible.set(entry.target, entry.isIntersecting);
    if (entry.isIntersecting) redraw.get(entry.target)?.();
  }
});

/** What is drawn in the next frame: snapshots that come in a burst cost one drawing. */
const waiting = new Set<() => void>();

function soon(draw: () => void) {
  // What is printed is not drawn in frames.
  if (matchMedia("print").matches) return draw();
  if (waiting.size === 0) {
    requestAnimationFrame(() => {
      const drawings = [...waiting];
      waiting.clear();
      for (const one of drawings) one();
    });
  }
  waiting.add(draw);
}

/** Fewer points do not take the whole width. */
const POINTS_MIN = 60;

interface Props {
  device: number;
  field: string;
  /** The top of the scale; without it the highest point is. */
  limit?: number | null;
  label: string;
}

export function Sparkline({ device, field, limit, label }: Props) {
  const ref = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const canvas = ref.current!;
    const draw = () => paint(canvas, past.of(device, field), limit ?? null);
    redraw.set(canvas, draw);
    observer.observe(canvas);
    const stop = effect(() => {
      void tick.value;
      void theme.value;
      if (visible.get(canvas)) soon(draw);
    });
    return () => {
      stop();
      waiting.delete(draw);
      observer.unobserve(canvas);
    };
  }, [device, field, limit]);
  return <canvas ref={ref} class="spark" role="img" aria-label={label} />;
}

function paint(canvas: HTMLCanvasElement, points: (number | null)[], limit: number | null) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale);
  const height = Math.round(canvas.clientHeight * scale);
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d")!;
  context.clearRect(0, 0, width, height);
  let top = limit ?? 0;
  for (const point of points) if (point !== null && point > top) top = point;
  if (!top) return;
  const colours = theme.value;
  const count = Math.max(POINTS_MIN, points.length);
  const x = (index: number) => ((count - points.length + index) / (count - 1)) * width;
  const y = (value: number) => height - scale - (value / top) * (height - 2 * scale);
  const line = new Path2D();
  const area = new Path2D();
  let from = -1;
  const close = (end: number) => {
    if (from < 0) return;
    area.lineTo(x(end), height);
    area.lineTo(x(from), height);
    area.closePath();
    from = -1;
  };
  points.forEach((point, index) => {
    if (point === null) return close(index - 1);
    if (from < 0) {
      from = index;
      line.moveTo(x(index), y(point));
      area.moveTo(x(index), y(point));
    } else {
      line.lineTo(x(index), y(point));
      area.lineTo(x(index), y(point));
    }
  });
  close(points.length - 1);
  context.fillStyle = colours.area;
  context.fill(area);
  context.strokeStyle = colours.line;
  context.lineWidth = 1.25 * scale;
  context.lineJoin = "round";
  context.stroke(line);
}
