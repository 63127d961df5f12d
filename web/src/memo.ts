// A component that is drawn again only when one of its properties is another object.
import { Component, h, type ComponentChild, type FunctionComponent } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([name, value]) => before[name] !== value);
    }

    override render(props: P): ComponentChild {
      return h(inner, props as never);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
