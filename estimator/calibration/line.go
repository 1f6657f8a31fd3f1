package calibration

import (
	"math"
	"slices"
)

// median of a list, which is sorted by it; between the two in the middle where their number is even.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	if n%2 == 1 {
		return list[n/2]
	}
	return list[n/2-1]/2 + list[n/2]/2
}

// spread is the median of the distances from at, scaled to the standard deviation of a normal distribution.
func spread(list []float64, at float64) float64 {
	far := make([]float64, len(list))
	for i, v := range list {
		far[i] = math.Abs(v - at)
	}
	return 1.4826 * median(far)
}

// point is a job: what was replayed, and by how much more was measured.
type point struct{ x, y float64 }

// mostPoints bounds a line's work, which grows with the square of the points: with it a fit of 10,000 runs in fifty
// groups takes well below a second (BenchmarkFit).
const mostPoints = 200

// leastRange is how many times as large as the small ones (the lowest tenth) the large ones (the highest) must be,
// before what is in proportion can be told from what is constant.
const leastRange = 2

// line is the constant, and the share of x, that y consists of: Theil and Sen's, the median of the slopes between all
// pairs of points, and of what it leaves. Up to 29 % of the points may lie anywhere. The share is 0 where the points do
// not say otherwise: where x hardly varies, or where the slope's 95 % interval (P. K. Sen, Journal of the American
// Statistical Association 63, 1968: from the variance of Kendall's tau) holds 0. A share that is made up by chance
// would grow with the job; a constant does not.
func line(points []point) (constant, share float64) {
	if all := points; len(all) > mostPoints {
		points = make([]point, mostPoints)
		for i := range points {
			points[i] = all[i*len(all)/mostPoints]
		}
	}
	x := make([]float64, len(points))
	for i, p := range points {
		x[i] = p.x
	}
	slices.Sort(x)
	n := float64(len(x))
	if len(x) > 2 && x[len(x)-1-len(x)/10] >= leastRange*x[len(x)/10] {
		var slopes []float64
		for i, a := range points {
			for _, b := range points[:i] {
				if a.x != b.x {
					slopes = append(slopes, (a.y-b.y)/(a.x-b.x))
				}
			}
		}
		share = median(slopes)
		half := 1.96 * math.Sqrt(n*(n-1)*(2*n+5)/18) / 2
		middle := float64(len(slopes)) / 2
		low, high := int(math.Floor(middle-half)), int(math.Ceil(middle+half))
		if low < 0 || high >= len(slopes) || slopes[low] <= 0 && slopes[high] >= 0 {
			share = 0
		}
	}
	rest := make([]float64, len(points))
	for i, p := range points {
		rest[i] = p.y - share*p.x
	}
	return median(rest), share
}
