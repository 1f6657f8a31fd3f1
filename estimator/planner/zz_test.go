package planner
import ("testing";"fmt";"github.com/vramplan/vramplan/estimator")
func TestZZ(t *testing.T){
 r:=story()
 for _,o:=range []string{"adamw","sgd","sgd-momentum","adamw-8bit","lion"}{
  in:=r.Input; in.Job.Training.GradientAccumulation=4
  in.Job.Training.Optimizer=&estimator.Optimizer{Name:o}
  res,err:=estimator.Estimate(in); 
  if err!=nil{fmt.Println(o,err);continue}
  fmt.Println(o,res.Peak.AllocatedBytes>>20,res.Peak.ReservedBytes>>20,res.Peak.DeviceBytes>>20,res.Peak.MinimumLimitBytes>>20)
  for _,c:=range res.Components{fmt.Print(c.Name," ",c.Bytes>>20,"; ")}
  fmt.Println()
 }
}
func checkChanges(a ...any){}
