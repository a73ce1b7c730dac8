"""Random trees of hfsc classes, with arrivals and changes, for `oracle/fuzz --kinds hfsc`."""

from policies_htb import Tree as Classes


class Tree(Classes):
    """Classes with service curves."""

    kind, salt = "hfsc", 0x68667363

    def root_options(self):
        d = self.draw
        # Rates have 32 bits of bytes, four times as much in a steep curve.
        self.rate = min(self.rate, 8_000_000_000)
        return f" default {d.of(0, d.between(1, self.minors)):x}"

    def places(self):
        # hfsc-inner-qdisc: a class with a qdisc of its own stays a leaf.
        return [m for m in super().places() if m not in self.leafs]

    def rate_of(self, least, most):
        return max(8, self.rate * self.draw.between(least, most) // 100)

    def curve(self, least=5, most=100):
        """A curve whose first part is as long as some packets take."""
        d = self.draw
        rate = self.rate_of(least, most)
        us = max(1, d.of(300, 1500, 6000, 20_000) * 8 * 10**6 // self.rate)
        us = min(us, 4_000_000)
        match d.of("line", "line", "line", "steep", "steep", "slow", "flat", "packet"):
            case "steep":
                return f"m1 {self.rate_of(100, 400)}bit d {us}us m2 {rate}bit"
            case "slow":
                return f"m1 {max(8, rate // d.between(2, 10))}bit d {us}us m2 {rate}bit"
            case "flat":
                return f"m1 0bit d {us}us m2 {rate}bit"
            case "packet":
                return f"umax {d.of(60, 500, 1514)} dmax {us}us rate {rate}bit"
        return f"m2 {rate}bit"

    def options(self):
        d = self.draw
        shared = f"ls {self.curve()}" + d.sometimes(60, f" ul {self.curve(20, 150)}")
        return d.of(
            f"rt {self.curve(5, 60)}", shared, shared, f"sc {self.curve(5, 60)}" + d.sometimes(50, f" ul {self.curve(20, 150)}"),
            f"rt {self.curve(5, 60)} {shared}", f"rt {self.curve(5, 60)} {shared}",
        )
